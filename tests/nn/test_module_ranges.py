"""A profile with with_modules=True has the calls of modules, and the module of each op."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import Module
from fastdist.profiler import profile

PLAIN_CALL = Module.__call__


class Block(fd.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = fd.nn.Linear(3, 3)

    def forward(self, x: fd.Tensor) -> fd.Tensor:
        return self.inner(x).exp()


class Net(fd.nn.Module):
    def __init__(self, other: Callable[..., Any]) -> None:
        super().__init__()
        self.layers = fd.nn.Sequential(Block(), fd.nn.Tanh())
        self.other = [other]

    def forward(self, x: fd.Tensor) -> fd.Tensor:
        # Call a child, a module that is not a child, and a grandchild directly.
        y = self.other[0](self.layers(x))
        return self.layers[0](y).sum()


def paths(p: profile) -> list[tuple[str, str]]:
    return [(event.name, event.module_hierarchy) for event in p.events()]


def test_each_event_has_the_path_of_its_module_and_gradients_those_of_their_ops() -> None:
    net = Net(fd.nn.Sigmoid())
    x, y = fd.ones(3), fd.ones(2, 3)
    with profile(with_modules=True) as p:
        x.log()
        net(y).backward()
    told = [(name, path) for name, path in paths(p) if name.startswith(("aten", "nn.Module"))]
    assert told[:18] == [
        ("aten::log", ""),
        ("nn.Module: Net_0", "Net"),
        ("nn.Module: Sequential_0", "Net.layers"),
        ("nn.Module: Block_0", "Net.layers.0"),
        ("nn.Module: Linear_0", "Net.layers.0.inner"),
        ("aten::linear", "Net.layers.0.inner"),
        ("aten::addmm", "Net.layers.0.inner"),
        ("aten::exp", "Net.layers.0"),
        ("nn.Module: Tanh_0", "Net.layers.1"),
        ("aten::tanh", "Net.layers.1"),
        ("nn.Module: Sigmoid_0", "Sigmoid"),
        ("aten::sigmoid", "Sigmoid"),
        ("nn.Module: Block_0", "Net.layers.0"),
        ("nn.Module: Linear_0", "Net.layers.0.inner"),
        ("aten::linear", "Net.layers.0.inner"),
        ("aten::addmm", "Net.layers.0.inner"),
        ("aten::exp", "Net.layers.0"),
        ("aten::sum", "Net"),
    ]
    gradients = {(name, path) for name, path in paths(p) if name.endswith("Backward0")}
    assert gradients >= {("TanhBackward0", "Net.layers.1"), ("SumBackward0", "Net")}
    # The events inside a gradient's event belong to the same module.
    tanh = next(event for event in p.events() if event.name == "TanhBackward0")
    assert tanh.cpu_children
    assert {event.module_hierarchy for event in tanh.cpu_children} == {"Net.layers.1"}


def test_modules_are_called_as_ever_where_nobody_wants_to_know() -> None:
    assert Module.__call__ is PLAIN_CALL
    with profile(with_modules=True):
        assert Module.__call__ is not PLAIN_CALL
        with profile() as inner:
            fd.nn.Tanh()(fd.ones(2))
        assert Module.__call__ is not PLAIN_CALL
    assert Module.__call__ is PLAIN_CALL
    # A profile that is opened inside another one, without with_modules, gets the same ranges.
    assert ("nn.Module: Tanh_0", "Tanh") in paths(inner)
    x = fd.ones(2)
    with profile() as p:
        assert Module.__call__ is PLAIN_CALL
        fd.nn.Tanh()(x)
    assert paths(p) == [("aten::tanh", "")]


def test_an_error_leaves_the_module() -> None:
    layer, x = fd.nn.Linear(2, 2), fd.ones(3)
    with profile(with_modules=True) as p:
        with pytest.raises(RuntimeError):
            layer(x)
        fd.ones(2).exp()
    assert paths(p)[0] == ("nn.Module: Linear_0", "Linear") and paths(p)[-1] == ("aten::exp", "")


def test_threads_are_in_modules_of_their_own() -> None:
    inside, over = threading.Event(), threading.Event()

    class Waits(fd.nn.Module):
        def forward(self, x: fd.Tensor) -> fd.Tensor:
            inside.set()
            assert over.wait(60)
            return x.exp()

    x = fd.ones(2)
    x.exp(), x.log()  # in a first call, a profile may have a row of a kernel that is loaded
    with profile(with_modules=True) as p:
        thread = threading.Thread(target=Waits(), args=(x,))
        thread.start()
        assert inside.wait(60)
        x.log()
        over.set()
        thread.join()
    assert sorted(paths(p)) == [
        ("aten::exp", "Waits"),
        ("aten::log", ""),
        ("nn.Module: Waits_0", "Waits"),
    ]


def test_averages_are_grouped_by_module_and_files_tell_it(tmp_path: Path) -> None:
    net = fd.nn.Sequential(fd.nn.Tanh(), fd.nn.Tanh())
    with profile(with_modules=True) as p:
        net(fd.ones(2))
    rows = {(row.key, row.module_hierarchy): row.count for row in p.key_averages()}
    assert rows["aten::tanh", ""] == 2
    averages = p.key_averages(group_by_module=True)
    rows = {(row.key, row.module_hierarchy): row.count for row in averages}
    assert rows["aten::tanh", "Sequential.0"] == rows["aten::tanh", "Sequential.1"] == 1
    assert "Sequential.1" in averages.table() and "Module" not in p.key_averages().table().replace(
        "nn.Module:", ""
    )
    p.export_chrome_trace(tmp_path / "trace.json")
    listed = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ops = [one for one in listed if one["name"] == "aten::tanh"]
    assert [one["args"]["Module Hierarchy"] for one in ops] == ["Sequential.0", "Sequential.1"]
    (call,) = [one for one in listed if one["name"] == "nn.Module: Tanh_1"]
    assert call["cat"] == "python_function"
