"""Write files in the format that PyTorch used before 1.6.

Usage: python -m tests.serialization.make_legacy_files torch

This program needs PyTorch. The tests read the files without PyTorch.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

FILES = Path(__file__).parent / "files"


def values(torch: Any) -> dict[str, Any]:
    """Return values of several dtypes, some of which share memory."""
    x = torch.arange(12.0).reshape(3, 4)
    sparse = torch.sparse_coo_tensor([[0, 2], [1, 0]], torch.tensor([1.5, 2.5]), (3, 3))
    return {
        "whole": x,
        "row": x[1],
        "turned": x.t(),
        "leaf": x.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(x[2]),
        "sparse": sparse.coalesce(),
        "numbers": [torch.tensor([0, 1, 2]).to(getattr(torch, name)) for name in DTYPES],
        "state": OrderedDict(a=torch.ones(2), b=torch.zeros(0, 3)),
        "plain": (1, 2.5, "grün", None, True, {"k": [1]}),
    }


DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("bfloat16", "complex64"),
)


def write(torch: Any) -> None:
    """Write a file for each protocol, a file of a module, and a file of a quantized tensor."""
    old = {"_use_new_zipfile_serialization": False}
    for protocol in (2, 3, 4, 5):
        path = FILES / f"legacy_{protocol}.pt"
        torch.save(values(torch), path, pickle_protocol=protocol, **old)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(
                torch.arange(float(parameter.numel())).reshape(parameter.shape) + number
            )
    with mock.patch("inspect.getsourcelines", side_effect=OSError):  # so that no source is saved
        torch.save(model, FILES / "legacy_module.pt", **old)
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
    torch.save(quantised, FILES / "legacy_quantised.pt", **old)


if __name__ == "__main__":
    write(import_module(sys.argv[1]))
