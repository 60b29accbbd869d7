# PyTorch's file flatten.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
