# PyTorch's file batchnorm.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
from ..batch_norm import _BatchNorm as _BatchNorm
