"""The error for a missing name of a public module lists the names that exist."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import subprocess
import sys
import traceback

import pytest

import fastdist
from fastdist.core import missing
from fastdist.core.tables import late_refusals, late_rows

MODULES = (
    "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "autograd",
    "autograd.functional", "autograd.forward_ad", "data", "utils", "utils.data", "distributed",
    "distributed.rpc",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_says_what_it_has_instead(name: str) -> None:
    module = importlib.import_module(f"fastdist.{name}")
    with pytest.raises(AttributeError, match=r"has no attribute 'Qwyx99'; it has: \w+") as caught:
        _ = module.Qwyx99
    assert "CONTRIBUTING.md describes how to add one" in str(caught.value)
    assert not hasattr(module, "__wrapped__")


def test_names_are_those_of_the_module_and_not_what_it_imported() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = fastdist.optim.Qwyx99
    assert "Adam, AdamW" in str(caught.value) and "Tensor" not in str(caught.value)
    with pytest.raises(AttributeError, match=r"it has: what dir\(fastdist\) lists"):
        _ = fastdist.Qwyx99


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        ("", "rnadn", "randn"),
        ("", "softmx", "softmax"),
        (".nn", "Linera", "Linear"),
        (".nn", "crossentropyloss", "CrossEntropyLoss"),
        (".nn.functional", "cross_entropi", "cross_entropy"),
        (".optim", "AdmaW", "AdamW"),
    ],
)
def test_a_misspelt_name_is_told_the_nearest(module: str, name: str, near: str) -> None:
    found = importlib.import_module(f"fastdist{module}")
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; nearest in .*{near}"):
        getattr(found, name)
    with pytest.raises(ImportError, match=rf"cannot import name '{name}' from .*; nearest.*{near}"):
        exec(f"from fastdist{module} import {name}")
    assert not hasattr(found, name)


def test_programs_that_probe_for_names_do_not_wait_for_suggestions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(missing, "_told", None)
        assert not hasattr(fastdist, "softmx") and getattr(fastdist.nn, "Linera", None) is None
        with pytest.raises(AttributeError) as caught:
            _ = fastdist.softmx
    shown = "module 'fastdist' has no attribute 'softmx'; nearest in fastdist: softmax"
    assert str(caught.value).startswith(shown) and caught.value.name == "softmx"
    last = traceback.format_exception_only(caught.value)[0]
    assert last.startswith(f"AttributeError: {shown}")
    for kept in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(kept) is AttributeError and str(kept) == str(caught.value)


@pytest.mark.one_in(3)
def test_a_misspelt_method_is_told_the_nearest_by_python() -> None:
    # Python suggests names only for a class with at most 750. A `__getattr__` that suggests names
    # would slow down every attribute.
    program = "import fastdist; fastdist.ones(2).softmx"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert "'Tensor' object has no attribute 'softmx'. Did you mean: 'softmax'?" in done.stderr
    assert len(dir(fastdist.Tensor)) < 750


def test_dir_shows_what_is_for_users_alone() -> None:
    rooms = {"core", "devices", "dispatch", "engine", "graph", "kernels", "namespace", "ops"}
    rooms |= {"concurrency", "instrumentation", "language", "random_numbers", "system"}
    assert not rooms & {*dir(fastdist)}
    assert {"nn", "optim", "Tensor", "randn", "__version__"} <= {*dir(fastdist)}
    private = {name for name in dir(fastdist) if name.startswith("_") and name[1] != "_"}
    checks = {name for name in private if name.startswith(("_check", "_assert"))}
    rooms = {"_C", "_custom_ops", "_dynamo", "_functorch", "_inductor", "_jit_internal", "_ops"}
    rooms |= {"_subclasses", "_tensor", "_tensor_str", "_utils"}
    assert private - checks - rooms == {"_sample_dirichlet", "_standard_gamma"}  # as in PyTorch


def test_modules_with_explanations_still_refuse_wrong_imports() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Conv9d'"):
        exec("from fastdist.nn import Conv9d")


ROOMS = (
    "cuda", "futures", "multiprocessing", "testing", "info", "distributed.autograd",
    "distributed.optim", "distributed.store", "distributed.rendezvous", "distributed.sockets",
    "distributed.pipe", "autograd.function", "autograd.graph", "autograd.anomaly_mode",
)  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["", *MODULES, *ROOMS])
def test_every_name_that_a_module_lists_can_be_had(name: str) -> None:
    module = importlib.import_module(f"fastdist.{name}".rstrip("."))
    public = {one for one in getattr(module, "__all__", ()) if not one.startswith("_")}
    assert public <= {*dir(module)}
    listed = {*dir(module), *getattr(module, "__all__", ())}
    assert [one for one in listed if not hasattr(module, one)] == []
    assert inspect.getmembers(module)


@pytest.mark.one_in(3)
def test_modules_that_load_later_are_attributes_of_a_fresh_process() -> None:
    # In this process another test may have imported the modules already.
    program = """
import fastdist
for module in (fastdist, fastdist.nn, fastdist.nn.utils, fastdist.optim, fastdist.autograd):
    assert [name for name in module.__all__ if not hasattr(module, name)] == [], module
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_nowhere_is_no_attribute_either() -> None:
    assert not hasattr(fastdist.distributed, "tracer")
    with pytest.raises(AttributeError, match=r"distributed' has no attribute 'tracer'"):
        _ = fastdist.distributed.tracer


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ScriptDict", "programs are not captured as graphs"),
        ("IntType", "programs are not captured as graphs"),
        ("AliasDb", "part of PyTorch's C[+][+] library"),
        ("set_autocast_xla_dtype", "no IPUs and TPUs"),
        ("slice_inverse", "an internal function of PyTorch's libraries"),
        ("QInt8Storage", "quantized tensors are not supported"),
    ],
)
def test_names_that_are_not_carried_are_told_why(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; .*{said}"):
        getattr(fastdist, name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mkldnn_convolution", "an internal function of PyTorch's libraries"),
        ("quantize_per_tensor", "quantized tensors are not supported"),
        ("sparse_csr_tensor", "sparse_coo is the only sparse layout"),
        ("nested.nested_tensor", "nested tensors are not supported"),
        ("masked.masked_tensor", "masked tensors are not supported"),
        ("utils.data.DataChunk", "write a Dataset"),
        ("utils.data.datapipes.iter.FileLister", "IterDataPipe of your own"),
        ("utils.cpp_extension.load", "the program's version in Python"),
        (
            "utils.checkpoint.create_selective_checkpoint_contexts",
            r"checkpoint\(\) the parts of the model",
        ),
        ("Tensor._make_wrapper_subclass", "write __torch_function__"),
        ("_functorch.aot_autograd.aot_function", "programs are not captured"),
        ("nn.functional.scaled_grouped_mm", "scaled_mm takes two matrices"),
    ],
)
def test_names_that_refuse_in_use_say_why(name: str, said: str) -> None:
    home, _, last = name.rpartition(".")
    module = importlib.import_module(f"fastdist.{home}".rstrip(".").removesuffix(".Tensor"))
    found = getattr(fastdist.Tensor if home == "Tensor" else module, last)
    assert getattr(fastdist.Tensor if home == "Tensor" else module, last) is found
    with pytest.raises(NotImplementedError, match=rf"{last}: .*{said}"):
        found(1)


def test_every_late_name_is_there() -> None:
    missing = []
    for home, _, names in late_rows.ROWS:
        module = importlib.import_module(f"fastdist.{home}".rstrip("."))
        shown = [name.partition("=")[0] for name in names.split()]
        missing += [f"{home}.{name}" for name in shown if not hasattr(module, name)]
    for home, _, names in late_refusals.ROWS:
        module = importlib.import_module(f"fastdist.{home}".rstrip("."))
        missing += [f"{home}.{name}" for name in names.split() if not hasattr(module, name)]
    assert not missing


def test_a_family_of_names_is_that_of_its_room_alone() -> None:
    with pytest.raises(AttributeError, match=r"nearest in fastdist\.nn: "):
        _ = fastdist.nn.ParameterDicts


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("fastdist.utils.data", "graph", "datasets and their loader"),
    ],
)
def test_rooms_that_are_not_carried_are_told_why(module: str, name: str, said: str) -> None:
    with pytest.raises((ImportError, AttributeError), match=said):
        exec(f"import fastdist\nprint({module}.{name})")
