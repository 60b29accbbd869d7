"""Optimisers: what turns gradients into changes of parameters.

optimizer.py is the base class: groups, state, state dicts, and a step over all parameters, with
their own `.grad` or (step_with) with gradients that lie elsewhere. sgd.py and adam.py say what one
step does to one parameter, in the scalar language of the ops: fused.py hands that to the backend,
so that optimisers need no kernels of their own. lr_scheduler.py changes the learning rate as time
goes.
"""

from __future__ import annotations

from ..core.missing import explain_missing
from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]

explain_missing(__name__, lr_scheduler.__name__)
