# PyTorch's file rnn.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
