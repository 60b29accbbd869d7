# PyTorch's file container.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
