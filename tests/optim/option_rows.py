"""Every combination of the options of each optimiser, for fastdist and PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

STEPS = 50
SHAPE = (2, 3)
_LR = [0.03]
_DECAY = {"weight_decay": [0, 0.1]}
_MAXIMIZE = {"maximize": [False, True]}
_APART = {"decoupled_weight_decay": [False, True]}
_BETAS = {"betas": [(0.9, 0.999), (0.3, 0.8)]}
_EPS = {"eps": [1e-8, 1e-2]}
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "SGD": {
        **_DECAY,
        **_MAXIMIZE,
        "momentum": [0, 0.9],
        "dampening": [0, 0.3],
        "nesterov": [False, True],
    },
    "Adam": {**_DECAY, **_MAXIMIZE, **_BETAS, **_APART, **_EPS, "amsgrad": [False, True]},
    "AdamW": {**_DECAY, **_MAXIMIZE, **_BETAS, **_EPS, "amsgrad": [False, True]},
    "Adadelta": {**_DECAY, **_MAXIMIZE, "rho": [0.9, 0.4], "eps": [1e-6, 1e-2]},
    "Adagrad": {
        **_DECAY,
        **_MAXIMIZE,
        "lr_decay": [0, 0.1],
        "initial_accumulator_value": [0, 0.5],
        "eps": [1e-10, 1e-2],
    },
    "Adamax": {**_DECAY, **_MAXIMIZE, **_BETAS, **_EPS},
    "ASGD": {**_DECAY, **_MAXIMIZE, "lambd": [1e-4, 0.1], "alpha": [0.75, 0.3], "t0": [1e6, 4]},
    "NAdam": {**_DECAY, **_MAXIMIZE, **_BETAS, **_APART, **_EPS, "momentum_decay": [4e-3, 0.5]},
    "RAdam": {
        **_DECAY,
        **_MAXIMIZE,
        **_APART,
        **_EPS,
        "betas": [(0.9, 0.999), (0.3, 0.8), (0.9, 0.2)],
    },
    "RMSprop": {
        **_DECAY,
        **_MAXIMIZE,
        **_EPS,
        "alpha": [0.99, 0.5],
        "momentum": [0, 0.9],
        "centered": [False, True],
    },
    "Rprop": {
        **_MAXIMIZE,
        "etas": [(0.5, 1.2), (0.2, 3.0)],
        "step_sizes": [(1e-6, 50), (0.01, 0.1)],
    },
    "Adafactor": {
        **_DECAY,
        **_MAXIMIZE,
        "beta2_decay": [-0.8, -0.3],
        "eps": [(None, 1e-3), (1e-2, 0.1)],
        "d": [1.0, 1.5],
    },
}

# For each optimiser without a row, the file that compares its steps with a reference.
FORMULA_HELD_BY = {
    "LBFGS": "test_lbfgs.py",
    "Muon": "test_muon.py",
    "SparseAdam": "test_sparse_steps.py",
}


def combinations(name: str) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments of each combination that the optimiser accepts."""
    options = {"lr": _LR, **OPTIONS[name]}
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        if chosen.get("nesterov") and (chosen["momentum"] == 0 or chosen["dampening"] != 0):
            continue
        yield chosen


def start() -> list[list[float]]:
    """Return the initial parameters."""
    return [[math.cos(3.0 * i + j) for j in range(SHAPE[1])] for i in range(SHAPE[0])]


def gradient(step: int) -> list[list[float]]:
    """Return the gradient of one step, which does not depend on the parameters."""
    return [
        [math.sin(0.7 * step * (j + 1) + i) + 0.3 * i for j in range(SHAPE[1])]
        for i in range(SHAPE[0])
    ]
