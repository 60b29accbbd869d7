"""The table of PyTorch's class names against PyTorch itself."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

from fastdist.core.tables.torch_class_names import ROWS

pytestmark = pytest.mark.interop("torch")
# Classes that show their own name in PyTorch's module, because PyTorch's class is private.
_OWN_NAMES = {
    "CudaEvent", "IncompatibleKeys", "LazyConjNeg", "Pass", "PassElsewhere", "PassHere", "_Printed",
    "_AdaptiveAvgPool", "_AdaptiveMaxPool", "_AvgPool", "_Dropout", "_LPPool", "_LazyConv",
    "_LazyNorm", "_MaxPool", "_MaxUnpool", "_Norm", "_TypedCudaTensor", "_TypedTensor", "stream",
}  # fmt: skip


def test_the_table_has_pytorchs_modules() -> None:
    wrong = []
    for _, home, names in ROWS:
        path = f"torch.{home}".rstrip(".")
        for name in names.split():
            own, _, shown = name.partition(">")
            if own in _OWN_NAMES:
                continue
            found: Any = importlib.import_module("torch") if home == "return_types" else None
            module = found.return_types if found else importlib.import_module(path)
            kind = getattr(module, shown or own, None)
            if not isinstance(kind, type) or kind.__module__ not in (path, "torch._C"):
                wrong.append((path, name, kind, getattr(kind, "__module__", None)))
    assert not wrong
