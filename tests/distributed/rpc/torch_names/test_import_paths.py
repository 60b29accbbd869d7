"""PyTorch's import paths lead to the modules of torch_names."""

from __future__ import annotations

import importlib
import pickle

import pytest

from fastdist.distributed import rpc
from fastdist.distributed.rpc import torch_names
from fastdist.distributed.rpc.torch_names import ALIASES


@pytest.mark.parametrize("name", ALIASES)
def test_a_semi_private_module_has_pytorchs_path(name: str) -> None:
    module = importlib.import_module(f"{torch_names.__name__}.{name}")
    assert importlib.import_module(f"{rpc.__name__}.{name}") is module
    if "." not in name:
        assert getattr(rpc, name) is module


def test_a_class_pickled_under_pytorchs_path_loads() -> None:
    from fastdist.distributed.rpc.internal import PythonUDF

    assert PythonUDF.__module__ == f"{torch_names.__name__}.internal"
    by_path = b"cfastdist.distributed.rpc.internal\nPythonUDF\n."
    assert pickle.loads(by_path) is PythonUDF
