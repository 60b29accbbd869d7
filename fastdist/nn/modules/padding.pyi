# PyTorch's file padding.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
