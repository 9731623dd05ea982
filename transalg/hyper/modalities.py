"""What Gato's tokens are: their kinds, the sizes of patches and tables, and how values become bins. No torch.

A token ID is one of text, 0 … N_text − 1, then one of BINS bins, then the separator: N_V = N_text + BINS + 1. Discrete values have the
first IDs of text. An image patch has no token ID.
"""

KINDS = ("text", "obs", "img", "sep", "act")  # text, a value that is observed, an image patch, the separator, an action
TEXT, OBS, IMG, SEP, ACT = range(len(KINDS))

PATCH = 16  # rows and columns of an image patch
LOCAL = 512  # indices within a timestep
GRID = 128  # quantised rows of an image, and columns

BINS = 1024  # of [−1, 1]
MU, M = 100.0, 256.0  # of mu-law: ±M becomes ±1
