# PyTorch's file adaptive.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
