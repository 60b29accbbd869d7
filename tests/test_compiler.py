"""`compile` and TorchScript's functions return their argument unchanged, and warn once."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist import compiler, jit


@pytest.fixture(autouse=True)
def _told_anew() -> Iterator[None]:
    told = set(compiler._told)
    compiler._told.clear()
    yield
    compiler._told.clear()
    compiler._told.update(told)


def test_compile_returns_functions_and_modules_unchanged_and_warns_once() -> None:
    model = fd.nn.Linear(1, 1)
    with pytest.warns(UserWarning, match=r"compile\(\) returns its argument unchanged") as told:
        assert fd.compile(model) is model

    @fd.compile
    def first(x: Any) -> Any:
        return x

    @fd.compile(mode="max-autotune", fullgraph=True)
    def second(x: Any) -> Any:
        return x

    assert (first(1), second(2), len(told)) == (1, 2, 1)
    assert told[0].filename == __file__
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        fd.compile(model, mode="x", options={})


def test_script_and_trace_return_what_they_are_given() -> None:
    model = fd.nn.ReLU()
    with pytest.warns(UserWarning, match=r"jit.script returns its argument unchanged"):
        assert not isinstance(model, jit.ScriptModule) and jit.script(model) is model
    with pytest.warns(UserWarning, match=r"jit.trace returns its argument unchanged"):
        assert jit.trace(model, fd.ones(1)) is model
    assert isinstance(model, jit.ScriptModule) and not isinstance(fd.nn.ReLU(), jit.ScriptModule)
    assert isinstance(jit.ScriptModule(), fd.nn.Module)
    assert not jit.is_scripting() and not fd.compiler.is_compiling()
    assert jit.ignore(len) is len and jit.unused(len) is len and jit.export(len) is len


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("jit", "save", r"save model.state_dict\(\)"),
        ("jit", "load", "create the model from its class"),
        ("onnx", "export", "export from PyTorch"),
        ("distributed.tensor", "distribute_tensor", "there are process groups with"),
    ],
)
def test_what_is_not_there_can_be_imported_and_says_what_to_do_when_used(
    module: str, name: str, words: str
) -> None:
    with pytest.raises(NotImplementedError, match=words):
        getattr(importlib.import_module(f"fastdist.{module}"), name)(1)


def test_a_module_that_is_not_there_says_what_to_do() -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'nodes'.*not captured as graphs"):
        exec("from fastdist.fx import nodes")
    with pytest.raises(ImportError, match=r"'qwyx' from .*there are process groups"):
        exec("from fastdist.distributed.fsdp import qwyx")
    with pytest.raises(NotImplementedError, match=r"cpp_extension.load: .*version in Python"):
        fd.utils.cpp_extension.load("x", [])
    assert not fd.distributed.is_initialized()
