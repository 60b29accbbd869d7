# PyTorch's file fold.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
