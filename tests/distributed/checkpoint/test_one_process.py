"""One process saves and loads all its state bit for bit, or changes nothing."""

from __future__ import annotations

import errno
import os
import random
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, nn, optim
from fastdist.core.errors import DTypeError, ShapeError
from fastdist.distributed import checkpoint as dcp
from fastdist.distributed.checkpoint import part, shard_file, snapshot
from fastdist.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def made(seed: int) -> tuple[nn.Module, optim.Optimizer]:
    fastdist.manual_seed(seed)
    layers = (nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))
    model = nn.Sequential(*layers)
    return model, optim.Adam(model.parameters(), lr=0.01)


def step(model: nn.Module, optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(fastdist.randn(5, 3) * random.random()).square().sum().backward()
    optimizer.step()


def everything(model: nn.Module) -> list[np.ndarray[Any, Any]]:
    return [value.numpy().copy() for value in model.state_dict().values()]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(our, their)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def shard_of(folder: Path) -> Path:
    return next(folder.glob("*.pt"))


# ---- what is restored ----------------------------------------------------------------------------


def test_training_goes_on_bit_for_bit_where_it_was_saved(tmp_path: Path) -> None:
    model, optimizer = made(0)
    random.seed(0)
    step(model, optimizer)
    state = {"model": model, "optimizer": optimizer, "rng": dcp.RngState(), "step": 1}
    dcp.save(state, checkpoint_id=tmp_path / "a")
    step(model, optimizer)
    other, other_optimizer = made(1)
    resumed = {"model": other, "optimizer": other_optimizer, "rng": dcp.RngState(), "step": 0}
    dcp.load(resumed, checkpoint_id=tmp_path / "a")
    assert resumed["step"] == 1
    step(other, other_optimizer)
    assert_same(everything(other), everything(model))


def test_every_stream_of_random_numbers_goes_on(tmp_path: Path) -> None:
    def drawn() -> list[float]:
        return [fastdist.rand(1).item(), random.random(), float(np.random.rand())]  # noqa: NPY002

    drawn()  # use each generator once: the state of NumPy's is not saved before its first use
    dcp.save({"rng": dcp.RngState()}, checkpoint_id=tmp_path)
    expected = drawn()
    dcp.load({"rng": dcp.RngState()}, checkpoint_id=tmp_path)
    assert drawn() == expected


def test_a_stream_of_numpys_that_nobody_has_used_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = dcp.RngState().state_dict
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert state()["numpy"][1] == before
    monkeypatch.delitem(sys.modules, "numpy.random")
    unused = state()
    assert "numpy" not in unused
    dcp.RngState().load_state_dict(unused)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_values_keep_their_types_and_tensors_their_places(tmp_path: Path) -> None:
    values = {"text": "a", "none": None, "pair": (1, (2.5,)), "list": [1, [2]], "nan": -0.0}
    nested = {"values": values, 7: {"tensors": [fastdist.ones(2), 3]}, "empty": {}, "bytes": b"x"}
    dcp.save(nested, checkpoint_id=tmp_path)
    place = fastdist.zeros(2)
    found = {"values": dict.fromkeys(values), 7: {"tensors": [place, 0]}, "empty": {}, "bytes": 0}
    dcp.load(found, checkpoint_id=tmp_path)  # type: ignore[arg-type]
    assert repr(found) == repr(nested)
    assert place.tolist() == [1, 1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_every_dtype_and_shape_comes_back(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    kind = getattr(fastdist, dtype)
    given = (fastdist.rand(shape) * 9).to(kind)
    dcp.save({"x": given}, checkpoint_id=tmp_path)
    found = fastdist.zeros(shape, dtype=kind)
    dcp.load({"x": found}, checkpoint_id=tmp_path)
    assert found.tolist() == given.tolist()


@pytest.mark.parametrize("save", [dcp.save, dcp.async_save])
def test_views_and_tensors_that_share_memory_are_written_as_what_they_show(
    save: Any, tmp_path: Path
) -> None:
    base = fastdist.arange(1_000_000.0)
    views = {"part": base[3:5], "column": base.reshape(1000, 1000)[:2, 1], "same": base[3:5]}
    if (future := save(views, checkpoint_id=tmp_path)) and save is dcp.async_save:
        future.wait()
    found = {name: fastdist.zeros(2) for name in views}
    dcp.load(found, checkpoint_id=tmp_path)
    assert {n: t.tolist() for n, t in found.items()} == {n: t.tolist() for n, t in views.items()}
    assert shard_of(tmp_path).stat().st_size < 10_000


def test_sparse_tensors_come_back(tmp_path: Path) -> None:
    sparse = fastdist.eye(3).to_sparse()
    dcp.save({"x": sparse}, checkpoint_id=tmp_path)
    found: dict[str, Any] = {"x": None}
    dcp.load(found, checkpoint_id=tmp_path)
    assert found["x"].to_dense().tolist() == sparse.to_dense().tolist()


def test_state_dicts_by_names_fill_an_optimizer_that_has_made_no_step(tmp_path: Path) -> None:
    model, optimizer = made(0)
    step(model, optimizer)
    names = ("model", "optimizer")
    dcp.save(dict(zip(names, get_state_dict(model, optimizer))), checkpoint_id=tmp_path)
    other, fresh = made(1)
    found = dict(zip(names, get_state_dict(other, fresh)))
    dcp.load(found, checkpoint_id=tmp_path)
    set_state_dict(
        other, fresh, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
    )
    assert_same(everything(other), everything(model))
    ours, theirs = fresh.state_dict(), optimizer.state_dict()
    assert repr(ours) == repr(theirs)


def test_lists_of_optimizers_and_schedulers_go_on(tmp_path: Path) -> None:
    def trained(seed: int, steps: int) -> dict[str, Any]:
        model, _ = made(seed)
        optimizers = [optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()]
        schedulers = [optim.lr_scheduler.StepLR(each, 1) for each in optimizers[:2]]
        for _ in range(steps):
            model(fastdist.ones(5, 3)).square().sum().backward()
            for each in (*optimizers, *schedulers):
                each.step()
        return {"model": model, "optimizers": optimizers, "schedulers": schedulers, "all": [1]}

    given, found = trained(0, 2), trained(1, 0)
    dcp.save(given, checkpoint_id=tmp_path)
    dcp.load(found, checkpoint_id=tmp_path)
    told = [
        [each.state_dict() for key in ("optimizers", "schedulers") for each in state[key]]
        for state in (given, found)
    ]
    assert repr(told[0]) == repr(told[1])


def test_one_file_can_be_made_of_a_checkpoint_and_back(tmp_path: Path) -> None:
    model, _ = made(0)
    dcp.save({"model": model, "step": 3}, checkpoint_id=tmp_path / "a")
    dcp.format_utils.dcp_to_torch_save(tmp_path / "a", tmp_path / "one.pt")
    whole = fastdist.load(tmp_path / "one.pt")
    assert whole["step"] == 3
    assert_same([v.numpy() for v in whole["model"].values()], everything(model))
    dcp.format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "b")
    other, _ = made(1)
    dcp.load({"model": other}, checkpoint_id=tmp_path / "b")
    assert_same(everything(other), everything(model))


# ---- parts of tensors ---------------------------------------------------------------------------


def parts(tensor: Tensor, cuts: list[int]) -> list[dcp.Shard]:
    """Return the rows of a tensor as shards; `cuts` are the first rows of the shards."""
    ends = [*cuts[1:], len(tensor)]
    return [dcp.Shard(tensor[start:end], (start, 0)) for start, end in zip(cuts, ends)]


@pytest.mark.parametrize("saved", [[0], [0, 4], [0, 1, 2, 5, 9]])
@pytest.mark.parametrize("asked", [[0], [0, 3, 6], [0, 9]])
def test_a_tensor_is_cut_anew(saved: list[int], asked: list[int], tmp_path: Path) -> None:
    given = fastdist.rand(10, 3)
    dcp.save({"x": dcp.ShardedTensor(parts(given, saved), (10, 3))}, checkpoint_id=tmp_path)
    found = fastdist.zeros(10, 3)
    dcp.load({"x": dcp.ShardedTensor(parts(found, asked), (10, 3))}, checkpoint_id=tmp_path)
    assert found.tolist() == given.tolist()


def test_a_whole_tensor_is_put_together_of_blocks_and_a_block_cut_out_of_it(
    tmp_path: Path,
) -> None:
    given = fastdist.rand(4, 6)
    blocks = [dcp.Shard(given[i : i + 2, j : j + 3], (i, j)) for i in (0, 2) for j in (0, 3)]
    dcp.save({"x": dcp.ShardedTensor(blocks, (4, 6))}, checkpoint_id=tmp_path)
    whole, block = fastdist.zeros(4, 6), fastdist.zeros(2, 2)
    dcp.load({"x": whole}, checkpoint_id=tmp_path)
    dcp.load({"x": dcp.ShardedTensor.from_local(block, (1, 2), (4, 6))}, checkpoint_id=tmp_path)
    assert whole.tolist() == given.tolist()
    assert block.tolist() == given[1:3, 2:4].tolist()


def test_parts_that_do_not_make_a_whole_are_refused(tmp_path: Path) -> None:
    x = fastdist.ones(3, 2)
    missing = dcp.ShardedTensor.from_local(x, (0, 0), (10, 2))
    with pytest.raises(dcp.CheckpointException, match=r"'x', size \(10, 2\): .* 6 of its 20 elem"):
        dcp.save({"x": missing}, checkpoint_id=tmp_path / "a")
    twice = dcp.ShardedTensor([dcp.Shard(x, (0, 0)), dcp.Shard(x, (2, 0))], (5, 2))
    with pytest.raises(dcp.CheckpointException, match=r"two parts of 'x' overlap: \(3, 2\) at"):
        dcp.save({"x": twice}, checkpoint_id=tmp_path / "a")
    with pytest.raises(ShapeError, match=r"a part of shape \(3, 2\) at \(8, 0\) ends outside of"):
        dcp.ShardedTensor.from_local(x, (8, 0), (10, 2))
    assert not (tmp_path / "a").exists()


# ---- in the background --------------------------------------------------------------------------


def test_async_save_has_what_was_there_when_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write = threading.Event(), shard_file.save
    monkeypatch.setattr(shard_file, "save", lambda *args: gate.wait(20) and write(*args))
    x, position = fastdist.ones(3), {"at": [1]}
    folder = tmp_path / "a"
    future = dcp.async_save({"x": x, "position": position}, checkpoint_id=folder)
    x.add_(1)
    position["at"].append(2)
    assert not future.done()
    assert dcp.latest(tmp_path) is None
    gate.set()
    future.wait()
    found: dict[str, Any] = {"x": fastdist.zeros(3), "position": {"at": None}}
    dcp.load(found, checkpoint_id=folder)
    assert (found["x"].tolist(), found["position"]) == ([1, 1, 1], {"at": [1]})


def test_large_copies_are_of_the_moment_as_well(tmp_path: Path) -> None:
    given = fastdist.arange(3_000_000.0).reshape(3, -1)
    state = {"x": given, "turned": given.t(), "y": given + 1}
    expected = {name: tensor.clone() for name, tensor in state.items()}
    future = dcp.async_save(state, checkpoint_id=tmp_path)
    given.zero_()
    future.wait()
    found = {name: fastdist.zeros(tuple(tensor.shape)) for name, tensor in state.items()}
    dcp.load(found, checkpoint_id=tmp_path)
    assert all(bool((found[name] == expected[name]).all()) for name in state)


def test_copies_are_given_back_before_anybody_hears_that_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, write = snapshot._copy, part._write
    copies: list[weakref.ref[Any]] = []
    left: list[bool] = []

    def note(*args: Any) -> Tensor:
        copied = copy(*args)
        copies.append(weakref.ref(copied._array))
        return copied

    def write_and_look(*args: Any) -> None:
        args[-1].add_done_callback(lambda _: left.extend(one() is not None for one in copies))
        write(*args)

    monkeypatch.setattr(snapshot, "_copy", note)
    monkeypatch.setattr(part, "_write", write_and_look)
    dcp.async_save({"x": fastdist.ones(3)}, checkpoint_id=tmp_path).wait()
    assert left == [False]


def test_a_second_save_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, write = threading.Event(), shard_file.save
    monkeypatch.setattr(shard_file, "save", lambda *args: gate.wait(20) and write(*args))
    x = fastdist.ones(3)
    first = dcp.async_save({"x": x}, checkpoint_id=tmp_path / "a")
    order: list[str] = []
    first.add_done_callback(lambda _: order.append("first"))
    threading.Timer(0.05, gate.set).start()
    dcp.save({"x": x}, checkpoint_id=tmp_path / "b")
    order.append("second")
    assert order == ["first", "second"]


def test_copies_are_kept_for_the_next_save_where_that_is_asked_for(tmp_path: Path) -> None:
    x = fastdist.ones(3)
    for number in range(3):
        writer = dcp.FileSystemWriter(tmp_path / str(number), cache_staged_state_dict=True)
        dcp.async_save({"x": x.fill_(number)}, storage_writer=writer).wait()
    dcp.load({"x": x}, checkpoint_id=tmp_path / "1")
    assert x.tolist() == [1, 1, 1]


def test_the_error_of_a_background_save_is_the_future_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dcp.save({"x": fastdist.ones(3)}, checkpoint_id=tmp_path)
    before = files(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    future = dcp.async_save({"x": fastdist.zeros(3)}, checkpoint_id=tmp_path)
    words = (
        "No space left on device: a file of [0-9]+ bytes could not be written, and [0-9]+ bytes "
        "are free there; while the worker 'worker0' wrote its part of the checkpoint"
    )
    with pytest.raises(OSError, match=words) as told:
        future.wait()
    assert str(told.value.filename).startswith(str(tmp_path))
    assert "which is not there now" in told.value.__notes__[0]
    monkeypatch.undo()
    assert files(tmp_path) == before
    x = fastdist.zeros(3)
    dcp.load({"x": x}, checkpoint_id=tmp_path)
    assert x.tolist() == [1, 1, 1]


def full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# ---- what is rejected ----------------------------------------------------------------------------


def test_a_value_that_would_need_code_to_load_is_refused_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'a\.b' of the state dict is a \w*Path, which could"):
        dcp.save({"a": {"b": tmp_path}, "c": 1}, checkpoint_id=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    # A value that cannot be pickled is named in the same way.
    with pytest.raises(TypeError, match=r"'a\.b' of the state dict is a lock, which could not"):
        dcp.save({"a": {"b": threading.Lock()}}, checkpoint_id=tmp_path / "2")


def test_two_ways_to_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dcp.CheckpointException, match=r"two things would have the key 'a.b'"):
        dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=tmp_path / "a")


def test_a_load_that_fails_changes_nothing(tmp_path: Path) -> None:
    model, optimizer = made(0)
    step(model, optimizer)
    dcp.save({"model": model, "optimizer": optimizer, "x": 1}, checkpoint_id=tmp_path)
    other, fresh = made(1)
    before = everything(other)
    state = {"model": other, "optimizer": fresh, "x": fastdist.ones(1)}
    with pytest.raises(dcp.CheckpointException, match="'x' is a plain value in the checkpoint"):
        dcp.load(state, checkpoint_id=tmp_path)
    assert_same(everything(other), before)
    assert fresh.state_dict()["state"] == {}


def test_what_is_missing_is_named_with_what_is_near(tmp_path: Path) -> None:
    dcp.save({"weight": fastdist.ones(2), "step": 1}, checkpoint_id=tmp_path)
    asked = {"wieght": fastdist.zeros(2), "step": 0}
    with pytest.raises(
        dcp.CheckpointException,
        match=r"^Missing key in checkpoint state_dict: wieght\..*nearest: weight",
    ):
        dcp.load(asked, checkpoint_id=tmp_path)
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(asked, checkpoint_id=tmp_path, planner=planner)
    assert (asked["step"], asked["wieght"].tolist()) == (1, [0, 0])  # type: ignore[attr-defined]


def test_a_checkpoint_of_another_job_is_told_as_one(tmp_path: Path) -> None:
    dcp.save({"generator": made(0)[0]}, checkpoint_id=tmp_path)
    with pytest.raises(
        dcp.CheckpointException, match=r"keys is in it, so it seems to belong to an"
    ):
        dcp.load({"model": made(0)[0]}, checkpoint_id=tmp_path)


def test_another_shape_or_dtype_is_refused(tmp_path: Path) -> None:
    dcp.save({"x": fastdist.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(ShapeError, match=r"^Size mismatch between saved .*2.* and current: .*3.*x"):
        dcp.load({"x": fastdist.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(DTypeError, match=r"'x' is float32 in the checkpoint and float64 here"):
        dcp.load({"x": fastdist.ones(2, dtype=fastdist.float64)}, checkpoint_id=tmp_path)


def test_where_to_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(
        dcp.CheckpointException, match=r"^save: no folder is given: pass checkpoint_id=FOLDER"
    ):
        dcp.save({"x": 1})
    with pytest.raises(TypeError, match=r"^load: expected a FileSystemReader, got FileSystemWrite"):
        dcp.load({"x": 1}, storage_reader=dcp.FileSystemWriter(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^keep=0: at least 1"):
        dcp.save({"x": 1}, checkpoint_id=tmp_path, keep=0)
    with pytest.raises(dcp.CheckpointException, match=r"^there is no checkpoint in .*latest\(FOLD"):
        dcp.load({"x": 1}, checkpoint_id=tmp_path / "none")
