# PyTorch's file pixelshuffle.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
