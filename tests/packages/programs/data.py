"""Deterministic weights and data from NumPy, and the output of a program's results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch


def random(*shape: int, seed: int = 1) -> Any:
    """Return a float32 tensor that depends only on the shape and the seed."""
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(drawn.astype("float32"))


def fill(module: Any) -> Any:
    """Set a module's parameters to small numbers that depend only on the parameters' order."""
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters(), key=lambda item: item[0]):
            drawn = rng.standard_normal(tuple(parameter.shape)) * 0.1
            parameter.copy_(torch.from_numpy(np.asarray(drawn, "float32")))
    return module


def report(**numbers: Any) -> None:
    """Print the results, flattened, as one line of JSON."""
    flat = {
        name: np.asarray(value.detach() if hasattr(value, "detach") else value, "float64")
        for name, value in numbers.items()
    }
    line = json.dumps({name: value.ravel().tolist() for name, value in flat.items()})
    print(f"RESULT {line}", flush=True)  # noqa: T201 (the test reads it)
