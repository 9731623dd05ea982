"""Optimisers and learning-rate schedules: two tables, which options name."""
