"""In programs that use fastdist as torch, classes print and pickle under PyTorch's names."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.tables.torch_class_names import ROWS
from fastdist.core.torch_classes import TorchName
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.pickle_scan import require_sound

SAMPLES = """
import pickle, sys, torch
x = torch.ones(2, 3)
values = {
    "dtype": torch.float32, "size": x.shape, "device": torch.device("cpu"), "tensor": x,
    "parameter": torch.nn.Parameter(x), "generator": torch.Generator(), "layout": torch.strided,
    "storage": x.untyped_storage(), "format": torch.channels_last, "parts": torch.max(x, 0),
    "module": torch.nn.Linear(2, 2), "optimizer": torch.optim.SGD([torch.nn.Parameter(x)]),
    "distribution": torch.distributions.Normal(0.0, 1.0), "class": torch.nn.GELU,
    "dataset": torch.utils.data.TensorDataset(x), "class of dtypes": torch.dtype,
    "scheduler": torch.optim.lr_scheduler.StepLR, "error": torch.OutOfMemoryError("no room"),
}
"""
WRITE = """
for name, value in values.items():
    print(name, type(value), type(value).__module__, repr(value).splitlines()[0], sep=" | ")
for protocol in (4, 5):
    for dumps in (pickle.dumps, pickle._dumps):
        again = pickle.loads(dumps(values, protocol))
        assert again["class"] is torch.nn.GELU and again["class of dtypes"] is torch.dtype
class Own(torch.nn.Linear):
    known: int
import typing
assert typing.get_type_hints(Own)["known"] is int
assert typing.get_type_hints(torch.optim.Adam) is not None
with open(sys.argv[1] + ".pkl", "wb") as file:
    pickle.dump(values, file)
torch.save(values["module"], sys.argv[1] + ".pt")
"""
READ = """
found = pickle.load(open(sys.argv[2] + ".pkl", "rb"))
assert found.keys() == values.keys()
assert all(type(found[name]) is type(value) for name, value in values.items())
with torch.serialization.safe_globals([torch.nn.Linear]):
    assert type(torch.load(sys.argv[2] + ".pt", weights_only=False)) is torch.nn.Linear
"""


def run(program: str, *args: str, as_torch: bool) -> str:
    if as_torch:
        program = f"import fastdist.as_torch; fastdist.as_torch.install_as_torch()\n{program}"
    else:
        program = program.replace("sys, torch", "sys, fastdist as torch")
    found = subprocess.run(
        [sys.executable, "-c", program, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_texts_and_pickles_of_as_torch_programs(tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    shown = run(SAMPLES + WRITE, there, as_torch=True)
    own = run(SAMPLES + WRITE + READ, here, there, as_torch=False)
    run(SAMPLES + READ, there, here, as_torch=True)

    lines = {line.split(" | ")[0]: line.split(" | ")[1:] for line in shown.splitlines()}
    assert lines["dtype"] == ["<class 'torch.dtype'>", "torch", "torch.float32"]
    assert lines["size"] == ["<class 'torch.Size'>", "torch", "torch.Size([2, 3])"]
    assert lines["device"][:2] == ["<class 'torch.device'>", "torch"]
    assert lines["tensor"][:2] == ["<class 'torch.Tensor'>", "torch"]
    assert lines["parameter"][1] == "torch.nn.parameter"
    assert lines["generator"][2].startswith("<torch._C.Generator object at 0x")
    assert lines["layout"] == ["<class 'torch.layout'>", "torch", "torch.strided"]
    assert lines["format"] == ["<class 'torch.memory_format'>", "torch", "torch.channels_last"]
    assert lines["storage"][:2] == ["<class 'torch.storage.UntypedStorage'>", "torch.storage"]
    assert lines["parts"][::2] == ["<class 'torch.return_types.max'>", "torch.return_types.max("]
    assert lines["module"][0] == "<class 'torch.nn.modules.linear.Linear'>"
    assert lines["optimizer"][:2] == ["<class 'torch.optim.sgd.SGD'>", "torch.optim.sgd"]
    assert lines["distribution"][1] == "torch.distributions.normal"
    assert lines["error"][0] == "<class 'torch.OutOfMemoryError'>"
    assert "torch" not in own.replace("return_types", "").replace("storage", "")


def test_a_name_reads_as_pytorchs_and_pickles_as_fastdists() -> None:
    name = TorchName("torch.nn.modules.linear", "fastdist.nn.linear")
    assert name == "torch.nn.modules.linear" and f"{name}.Linear".startswith("torch.")
    assert pickle.loads(pickle.dumps(name)) == "fastdist.nn.linear"


def test_strict_workers_read_the_names_of_as_torch_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Linear:
        pass

    monkeypatch.setattr(sys.modules[__name__], "Linear", Linear, raising=False)
    Linear.__qualname__ = "Linear"
    Linear.__module__ = TorchName(__name__, "fastdist.nn.linear")
    asked: list[tuple[str, str]] = []

    def examine(module: str, name: str) -> tuple[Any, Any]:
        asked.append((module, name))
        return gate.examine(module, name)

    require_sound(pickle.dumps(Linear, 5), examine=examine)
    assert asked == [("builtins", "str"), ("fastdist.nn.linear", "Linear")]


def test_every_row_names_a_class_of_this_version() -> None:
    missing = []
    for home, _, names in ROWS:
        module = importlib.import_module(f"fastdist.{home}".rstrip("."))
        for name in names.split():
            if not isinstance(getattr(module, name.partition(">")[0], None), type):
                missing.append(f"{home}.{name}")
    assert not missing
