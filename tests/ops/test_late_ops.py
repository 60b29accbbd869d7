"""`late_ops` finds ops by their names, also ops of modules that are imported after late_ops."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from fastdist.dispatch.op import OPS
from fastdist.ops import late_ops


def test_the_stub_names_the_modules_that_declare_the_ops() -> None:
    stub = Path(late_ops.__file__).with_suffix(".pyi")
    lines = [one for one in ast.parse(stub.read_text()).body if isinstance(one, ast.ImportFrom)]
    assert lines
    for line in lines:
        module = importlib.import_module(f"fastdist.ops.{line.module}")
        (name,) = [one.name for one in line.names]
        assert getattr(late_ops, name) is getattr(module, name) is OPS[name]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no op has this name"):
        late_ops.no_such_op  # noqa: B018
    assert "no_such_op" not in vars(late_ops)
