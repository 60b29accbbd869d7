# PyTorch's file dropout.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
