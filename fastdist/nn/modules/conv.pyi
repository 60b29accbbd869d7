# PyTorch's file conv.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
from ..convolution import _ConvNd as _ConvNd
from ..convolution import _ConvTransposeNd as _ConvTransposeNd
