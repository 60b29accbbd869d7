# PyTorch's file upsampling.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
