# PyTorch's file normalization.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
