"""Learning rate schedulers.

scheduler.py is the base class. by_epoch.py has schedulers that are formulas of the epoch. cyclic.py
and one_cycle.py also change the momentum, with momentum.py. sequential.py combines several
schedulers. The schedule in plateau.py depends on a metric instead of the epoch.
"""

from __future__ import annotations

from ...core.missing import explain_missing
from .by_epoch import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from .cyclic import CyclicLR
from .one_cycle import OneCycleLR
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, _LRScheduler
from .sequential import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]

explain_missing(__name__)
