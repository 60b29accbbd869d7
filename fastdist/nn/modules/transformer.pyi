# PyTorch's file transformer.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
