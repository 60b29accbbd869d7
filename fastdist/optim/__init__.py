"""Optimisers, which update parameters from their gradients.

optimizer.py     the base class: groups, state, and a step with `.grad` or with given gradients
hooks.py         hooks before and after a step
saving.py        state dicts
counted.py       the base of optimisers that count their steps
updates.py       runs an update of several lines for all parameters of a group in one launch
fused.py         runs an update of one line on the backend, or as ops in a differentiable step
step_ranges.py   reports steps to a profiler
lr_scheduler/    changes the learning rate over time
swa_utils.py     averages parameters

Each of the other files defines the update of one optimiser for one parameter, as bodies in the
language of pointwise ops. So optimisers need no special kernels, and parameters stay separate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.missing import load_later
from . import step_ranges
from .optimizer import Optimizer
from .sgd import SGD

if TYPE_CHECKING:
    from . import lr_scheduler, swa_utils
    from ._adafactor import Adafactor
    from ._muon import Muon
    from .adadelta import Adadelta
    from .adagrad import Adagrad
    from .adam import Adam
    from .adamax import Adamax
    from .adamw import AdamW
    from .asgd import ASGD
    from .lbfgs import LBFGS
    from .nadam import NAdam
    from .radam import RAdam
    from .rmsprop import RMSprop
    from .rprop import Rprop
    from .sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

step_ranges.install()
_LATER = {
    "_adafactor": "Adafactor",
    "_muon": "Muon",
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "asgd": "ASGD",
    "lbfgs": "LBFGS",
    "nadam": "NAdam",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "rprop": "Rprop",
    "sparse_adam": "SparseAdam",
}
# These modules are imported on first use: all take 0.6 MB, and most programs need one optimiser.
load_later(
    __name__,
    {
        **dict.fromkeys(("lr_scheduler", "swa_utils", *_LATER), ""),
        **{name: module for module, name in _LATER.items()},
    },
)
