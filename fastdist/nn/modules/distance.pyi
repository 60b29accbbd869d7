# PyTorch's file distance.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
