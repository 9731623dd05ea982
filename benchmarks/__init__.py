"""Side by side with peers: each script is one command that prints ratios."""
