"""Fast inference on CPUs: a wrapped copy of a model."""
