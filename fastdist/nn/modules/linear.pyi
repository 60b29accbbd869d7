# PyTorch's file linear.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
