"""Algorithms 14 and 15 for batches: a trained model goes on with text, or turns one text into another."""
