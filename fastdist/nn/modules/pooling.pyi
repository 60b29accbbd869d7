# PyTorch's file pooling.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
