# PyTorch's file lazy.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
