"""Training: what turns batches into a better θ."""
