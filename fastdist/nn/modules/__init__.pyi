# PyTorch's files of modules. Written by fastdist/namespace/stubs.py.
from .. import *
