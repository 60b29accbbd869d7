"""Files and memory exchanged with PyTorch, in both directions."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import nn, optim
from tests.serialization import make_legacy_files, test_tar_reader

pytestmark = pytest.mark.interop("torch")


@pytest.fixture
def torch() -> Any:
    import torch

    return torch


def sent(save: Any, load: Any, content: Any, **options: Any) -> Any:
    stream = io.BytesIO()
    save(content, stream)
    stream.seek(0)
    return load(stream, **options)


def content_of(library: Any) -> dict[str, Any]:
    x = library.arange(12.0).reshape(3, 4)
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
    return {
        "whole": x,
        "row": x[1],
        "turned": x.t(),
        "every_second": x[:, ::2],
        "expanded": x[0, :1].expand(3),
        "scalar": library.tensor(2.5),
        "empty": library.empty(0, 3),
        "leaf": x.clone().requires_grad_(),
        "parameter": library.nn.Parameter(x[2]),
        "dtypes": [library.tensor([0, 1, 2]).to(getattr(library, name)) for name in names],
        "plain": [
            library.Size([1, 2]),
            library.float16,
            library.device("cpu"),
            {1, 2},
            b"\x00\xff",
        ],
        "more": OrderedDict(a=(1, [2.5, {"k": None}]), big=2**100, text="grün", c=1j),
    }


def told(value: Any) -> Any:
    """Return the parts that can be compared between the two libraries."""
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return [told(one) for one in value]
    if hasattr(value, "untyped_storage"):
        facts = (str(value.dtype).split(".")[-1], tuple(value.shape), value.stride())
        grad = (value.requires_grad, value.storage_offset(), value.untyped_storage().nbytes())
        return (type(value).__name__, facts, grad, value.detach().tolist())
    return str(value).replace("torch.", "").replace("fastdist.", "")


@pytest.mark.parametrize("weights_only", [True, False])
def test_ours_loads_there_and_theirs_here(torch: Any, weights_only: bool) -> None:
    there = sent(fastdist.save, torch.load, content_of(fastdist), weights_only=weights_only)
    here = sent(torch.save, fastdist.load, content_of(torch), weights_only=weights_only)
    assert told(there) == told(content_of(torch)) == told(here)
    for found in (there, here):
        found["whole"][1, 0] = 99.0
        assert found["row"][0].item() == found["turned"][0, 1].item() == 99.0


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_format_before_1_6_goes_both_ways(torch: Any, protocol: int) -> None:
    def saved(save: Any, load: Any, value: Any) -> Any:
        stream = io.BytesIO()
        save(value, stream, pickle_protocol=protocol, _use_new_zipfile_serialization=False)
        stream.seek(0)
        # With other protocols PyTorch warns, or it rejects the file.
        return load(stream, weights_only=protocol == 2)

    there = saved(fastdist.save, torch.load, before_1_6(fastdist))
    here = saved(torch.save, fastdist.load, before_1_6(torch))
    wanted = told(before_1_6(torch))
    assert told(there) == wanted == told(here)
    for found in (there, here):
        found["whole"][1, 0] = 99.0
        assert found["row"][0].item() == found["turned"][0, 1].item() == 99.0


def before_1_6(library: Any) -> dict[str, Any]:
    """Return values with the same repr in both libraries; reprs of sparse tensors differ."""
    found = make_legacy_files.values(library)
    found["sparse"] = found["sparse"].to_dense()
    return found


def test_the_oldest_format_is_read_as_they_read_it(torch: Any, tmp_path: Any) -> None:
    path = tmp_path / "old.tar"
    path.write_bytes(test_tar_reader.made())
    assert told(fastdist.load(path)) == told(torch.load(path, weights_only=False))


def test_a_file_goes_there_and_back_and_there_again(torch: Any) -> None:
    there = sent(fastdist.save, torch.load, content_of(fastdist))
    here = sent(torch.save, fastdist.load, there)
    again = sent(fastdist.save, torch.load, here)
    assert told(again) == told(content_of(torch))


def test_a_model_and_its_optimizer_train_on_in_the_other_library(torch: Any) -> None:
    def trained(library: Any, optimizers: Any, steps: int, state: Any = None) -> Any:
        rooms = library.nn
        model = rooms.Sequential(rooms.Linear(3, 4), rooms.Tanh(), rooms.Linear(4, 1))
        optimizer = optimizers.Adam(model.parameters(), lr=0.05)
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for _ in range(steps):
            optimizer.zero_grad()
            (model(library.ones(2, 3)) - 1).square().mean().backward()
            optimizer.step()
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    start = trained(torch, torch.optim, 3)
    ours = trained(fastdist, optim, 3, sent(torch.save, fastdist.load, start))
    theirs = trained(torch, torch.optim, 3, start)
    back = sent(fastdist.save, torch.load, ours)
    for name, tensor in theirs["model"].items():
        np.testing.assert_allclose(
            back["model"][name].numpy(), tensor.numpy(), rtol=1e-5, atol=1e-7
        )
    ours_again = trained(fastdist, optim, 2, ours)
    theirs_again = trained(torch, torch.optim, 2, back)
    for name, tensor in theirs_again["model"].items():
        np.testing.assert_allclose(
            ours_again["model"][name].numpy(), tensor.numpy(), rtol=1e-5, atol=1e-7
        )


def test_a_whole_module_of_theirs_runs_here(torch: Any) -> None:
    made = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2), torch.nn.GELU())
    ours = sent(torch.save, fastdist.load, made, weights_only=False)
    assert type(ours[0]) is nn.Linear
    x = np.ones((2, 3), np.float32)
    wanted = made(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(fastdist.from_numpy(x)).detach().numpy(), wanted, atol=1e-6)


def test_a_file_on_disk_is_mapped_by_them(torch: Any, tmp_path: Any) -> None:
    path = tmp_path / "x.pt"
    fastdist.save({"x": fastdist.arange(1000.0)}, path)
    assert torch.load(path, mmap=True)["x"].sum().item() == 499500.0


def test_memory_is_shared_both_ways(torch: Any) -> None:
    for ours in (fastdist.ones(2, 3), fastdist.ones(3, 2).t(), fastdist.tensor(True)):
        theirs = torch.from_dlpack(ours)
        theirs.fill_(0)
        assert not bool(ours.any()) and theirs.stride() == ours.stride()
    theirs = torch.arange(6.0).reshape(2, 3).t()
    ours = fastdist.from_dlpack(theirs)
    ours[0, 0] = 7.0
    assert theirs[0, 0].item() == 7.0 and ours.stride() == theirs.stride()
    with pytest.raises(BufferError):
        fastdist.from_dlpack(torch.ones(1, requires_grad=True))
    assert fastdist.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1.0, 1.0]


def test_their_constructors_take_our_tensors(torch: Any) -> None:
    x = fastdist.tensor([1.0, 2.0])
    assert torch.tensor(x).tolist() == torch.as_tensor(x).tolist() == [1.0, 2.0]
    assert fastdist.tensor(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_tensors_go_there_and_come_back(torch: Any) -> None:
    def content(library: Any) -> dict[str, Any]:
        values = library.tensor([1.0, 2.0, 3.5])
        made = library.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], values, (3, 3))
        rows = library.sparse_coo_tensor([[0, 2]], library.ones(2, 3), (4, 3))
        return {"made": made, "coalesced": made.coalesce(), "rows": rows}

    def facts(found: dict[str, Any]) -> list[Any]:
        return [
            (
                str(one.dtype).split(".")[-1],
                one.is_coalesced(),
                tuple(one.shape),
                one._indices().tolist(),
                one._values().tolist(),
            )
            for one in found.values()
        ]

    for weights_only in (True, False):
        there = sent(fastdist.save, torch.load, content(fastdist), weights_only=weights_only)
        here = sent(torch.save, fastdist.load, content(torch), weights_only=weights_only)
        assert facts(there) == facts(content(torch)) == facts(here)
