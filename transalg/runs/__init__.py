"""A run's folder: its configuration, its metadata, its checkpoints."""
