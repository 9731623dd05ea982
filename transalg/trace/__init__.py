"""Runs any formal algorithm and records every numbered line, from its source and its running frame."""
