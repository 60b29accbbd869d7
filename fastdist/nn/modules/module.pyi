# PyTorch's file module.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
