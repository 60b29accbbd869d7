"""A name that a public module lacks: the error says what there is."""

from __future__ import annotations

import importlib
import inspect
import pickle
from pathlib import Path

import pytest

import fastdist

MODULES = (
    "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "autograd",
    "autograd.functional", "autograd.forward_ad", "data", "utils", "utils.data", "distributed",
    "distributed.rpc",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_says_what_it_has_instead(name: str) -> None:
    module = importlib.import_module(f"fastdist.{name}")
    with pytest.raises(AttributeError, match=r"has no attribute 'Conv9d'; it has: \w+") as caught:
        _ = module.Conv9d
    assert "CONTRIBUTING.md tells how to add one" in str(caught.value)
    assert not hasattr(module, "__wrapped__")


def test_names_are_those_of_the_module_and_python_adds_the_nearest() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = fastdist.nn.Conv2d
    assert "Dropout, Embedding, Flatten" in str(caught.value)
    with pytest.raises(AttributeError) as caught:
        _ = fastdist.nn.functional.conv2d
    assert "Callable" not in str(caught.value) and "cross_entropy" in str(caught.value)
    with pytest.raises(AttributeError, match=r"it has: what dir\(fastdist\) lists") as caught:
        _ = fastdist.softmx
    # From these Python finds what it then asks for: "Did you mean: 'softmax'?"
    assert caught.value.name == "softmx" and caught.value.obj is fastdist


@pytest.mark.parametrize(("name", "instead"), [("save", r"pickle\.dump"), ("load", "trust")])
def test_a_name_whose_work_another_does_is_told_so(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; .*{instead}"):
        getattr(fastdist, name)


def test_what_a_missing_save_points_to_keeps_a_model(tmp_path: Path) -> None:
    model = fastdist.nn.Linear(2, 3)
    (tmp_path / "model").write_bytes(pickle.dumps(model.state_dict()))
    other = fastdist.nn.Linear(2, 3)
    other.load_state_dict(pickle.loads((tmp_path / "model").read_bytes()))
    assert (other.weight == model.weight).all() and (other.bias == model.bias).all()


def test_modules_with_explanations_still_refuse_wrong_imports() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Conv9d'"):
        exec("from fastdist.nn import Conv9d")


ROOMS = (
    "cuda", "futures", "multiprocessing", "testing", "info", "distributed.autograd",
    "distributed.optim", "distributed.store", "distributed.rendezvous", "distributed.sockets",
    "distributed.pipe", "autograd.function", "autograd.graph", "autograd.anomaly_mode",
)  # fmt: skip


@pytest.mark.parametrize("name", ["", *MODULES, *ROOMS])
def test_every_name_that_a_module_lists_can_be_had(name: str) -> None:
    module = importlib.import_module(f"fastdist.{name}".rstrip("."))
    assert [listed for listed in dir(module) if not hasattr(module, listed)] == []
    assert set(getattr(module, "__all__", ())) <= {*dir(module)}
    assert inspect.getmembers(module)


def test_a_name_that_is_nowhere_is_no_attribute_either() -> None:
    assert not hasattr(fastdist.distributed, "profiler")
    with pytest.raises(AttributeError, match=r"distributed' has no attribute 'profiler'"):
        _ = fastdist.distributed.profiler
