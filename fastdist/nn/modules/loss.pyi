# PyTorch's file loss.py of modules. Written by fastdist/namespace/stubs.py.
from .. import *
from ..loss import _Loss as _Loss
from ..loss import _WeightedLoss as _WeightedLoss
