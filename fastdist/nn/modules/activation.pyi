# PyTorch's file activation.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
