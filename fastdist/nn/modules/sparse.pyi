# PyTorch's file sparse.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
