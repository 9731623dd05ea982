"""Formal Algorithms for Transformers (Phuong & Hutter, 2022) as software.

>>> from transalg.formal import DTheta, DTransformer      # the paper, executable
>>> theta = DTheta.init(N_V=7, ell_max=5, L=2, H=2, d_e=6, d_mlp=11)
>>> P = DTransformer([5, 0, 3], theta)                     # column t is P̂(x[t+1] | x[1:t])
>>> P.shape
torch.Size([7, 3])
"""

__version__ = "0.1.0"
