"""What a model learns: one task a file."""
