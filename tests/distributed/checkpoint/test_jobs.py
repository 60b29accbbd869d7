"""The workers of a job save one checkpoint, and load it onto any number of workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor, nn, optim
from fastdist.distributed import checkpoint as dcp
from fastdist.distributed import rpc
from fastdist.distributed.checkpoint import shard_file
from fastdist.distributed.optim import DistributedOptimizer
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.members import join, leave_without, members
from tests.distributed.workers import DEADLINE_S, Group, open_gate, wait_at, wait_for_arrivals


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30) as group:
        yield group


# ---- what workers have --------------------------------------------------------------------------


class Part(nn.Module):
    """Some layers of a model, under their names in the whole model."""

    def __init__(self, first: int, count: int, seed: int) -> None:
        super().__init__()
        fastdist.manual_seed(seed)
        for number in range(first, first + count):
            self.add_module(f"layer{number}", nn.Linear(4, 4).double())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x).tanh()
        return x

    def parameter_rrefs(self) -> list[Any]:
        return [rpc.RRef(parameter) for parameter in self.parameters()]

    def numbers(self) -> dict[str, Any]:
        return {name: value.numpy().copy() for name, value in self.state_dict().items()}


class Split:
    """A model of four layers, spread over workers, and its optimizer."""

    def __init__(self, *places: tuple[str, int], seed: int = 0) -> None:
        self.parts, first = [], 0
        for name, count in places:
            self.parts.append(rpc.remote(name, Part, args=(first, count, seed + first)))
            first += count
        rrefs = [rref for part in self.parts for rref in part.rpc_sync().parameter_rrefs()]
        self.optimizer = DistributedOptimizer(optim.Adam, rrefs, lr=0.05)

    def step(self) -> None:
        with da.context() as context_id:
            x = fastdist.arange(8.0, dtype=fastdist.float64).reshape(2, 4)
            for part in self.parts:
                x = part.rpc_sync().forward(x)
            da.backward(context_id, [x.sum()])
            self.optimizer.step(context_id)

    def state(self) -> dict[str, Any]:
        return {"model": self.parts, "optimizer": self.optimizer}

    def numbers(self) -> dict[str, Any]:
        return {n: v for part in self.parts for n, v in part.rpc_sync().numbers().items()}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)


def full_disk(*args: object) -> None:
    raise OSError(28, "No space left on device")


def fill_disk(is_full: bool) -> None:
    shard_file.save = full_disk if is_full else fastdist.save  # type: ignore[assignment]


def save_at_gate(gate: str) -> None:
    """Make this worker write its parts only after a gate is opened."""

    def save(*args: Any) -> None:
        wait_at(gate)
        fastdist.save(*args)

    shard_file.save = save


# ---- one worker calls save and load -------------------------------------------------------------


@pytest.mark.parametrize(
    "places",
    [
        [("w1", 2), ("w2", 2)],
        [("w0", 4)],
        [("w0", 1), ("w2", 2), ("w1", 1)],
        [("w2", 1), ("w1", 3)],
    ],
)
@on_worker(0)
def test_a_split_model_and_its_optimizers_go_on_wherever_their_layers_are_then(
    places: list[tuple[str, int]], tmp_path: Path
) -> None:
    split = Split(("w1", 2), ("w2", 2))
    split.step()
    split.step()
    metadata = dcp.save(split.state(), checkpoint_id=tmp_path)
    split.step()
    other = Split(*places, seed=50)
    dcp.load(other.state(), checkpoint_id=tmp_path)
    other.step()
    assert_same(other.numbers(), split.numbers())
    assert sorted(metadata.workers.values()) == ["w1", "w2"]


def moments(rref: Any) -> list[Any]:
    state = rref.local_value().optimizer.state_dict()["state"]
    return [value["exp_avg"].tolist() for value in state.values()]


@on_worker(0)
def test_optimizers_of_parameters_without_names_go_on_on_their_workers(tmp_path: Path) -> None:
    split = Split(("w1", 2), ("w2", 2))
    split.step()
    dcp.save({"optimizer": split.optimizer}, checkpoint_id=tmp_path)
    references = split.optimizer.remote_optimizers
    before = [rpc.rpc_sync(rref.owner(), moments, (rref,)) for rref in references]
    split.step()
    assert [rpc.rpc_sync(rref.owner(), moments, (rref,)) for rref in references] != before
    dcp.load({"optimizer": split.optimizer}, checkpoint_id=tmp_path)
    assert [rpc.rpc_sync(rref.owner(), moments, (rref,)) for rref in references] == before


@on_worker(0)
def test_a_number_behind_an_rref_is_saved_but_cannot_be_put_back(tmp_path: Path) -> None:
    number = rpc.remote("w1", int, (7,))
    dcp.save({"number": number}, checkpoint_id=tmp_path)
    with pytest.raises(
        dcp.CheckpointException, match="'number' is a int, which cannot be replaced"
    ):
        dcp.load({"number": number}, checkpoint_id=tmp_path)
    found = {"number": 0}
    dcp.load(found, checkpoint_id=tmp_path)
    assert found == {"number": 7}


@on_worker(0)
def test_async_save_is_of_the_moment_of_the_call_on_every_worker(tmp_path: Path) -> None:
    split = Split(("w1", 2), ("w2", 2))
    split.step()
    before = split.numbers()
    for name in ("w1", "w2"):
        rpc.rpc_sync(name, save_at_gate, ("async",))
    future = dcp.async_save(split.state(), checkpoint_id=tmp_path / "a")
    split.step()
    assert not future.done()
    assert dcp.latest(tmp_path) is None
    for name in ("w1", "w2"):
        rpc.rpc_sync(name, open_gate, ("async",))
    future.wait()
    for name in ("w1", "w2"):
        rpc.rpc_sync(name, fill_disk, (False,))
    other = Split(("w1", 2), ("w2", 2), seed=50)
    dcp.load(other.state(), checkpoint_id=tmp_path / "a")
    assert_same(other.numbers(), before)


@on_worker(0)
def test_a_full_disk_on_one_worker_leaves_the_older_checkpoint_and_no_rubbish(
    tmp_path: Path,
) -> None:
    split = Split(("w1", 2), ("w2", 2))
    dcp.save(split.state(), checkpoint_id=tmp_path)
    before, numbers = sorted(os.listdir(tmp_path)), split.numbers()
    split.step()
    rpc.rpc_sync("w2", fill_disk, (True,))
    words = f"No space left on device; while the worker 'w2' wrote its part.*{tmp_path}"
    with pytest.raises(OSError, match=words):
        dcp.save(split.state(), checkpoint_id=tmp_path)
    rpc.rpc_sync("w2", fill_disk, (False,))
    assert sorted(os.listdir(tmp_path)) == before
    dcp.load(split.state(), checkpoint_id=tmp_path)
    assert_same(split.numbers(), numbers)


@on_worker(0)
def test_a_load_that_one_worker_cannot_do_changes_nothing_on_any(tmp_path: Path) -> None:
    split = Split(("w1", 2), ("w2", 2))
    dcp.save(split.state(), checkpoint_id=tmp_path)
    larger = Split(("w1", 2), ("w2", 3), seed=50)
    before = larger.numbers()
    with pytest.raises(dcp.CheckpointException, match=r"^Missing key .*: model\.layer4\.weight"):
        dcp.load(larger.state(), checkpoint_id=tmp_path)
    assert_same(larger.numbers(), before)


class Position:
    """A worker's position in its data."""

    def __init__(self) -> None:
        self.at: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]

    def go_to(self, *places: int) -> list[int]:
        self.at.extend(places)
        return self.at


@on_worker(0)
def test_whatever_has_a_state_is_saved_where_it_lives(tmp_path: Path) -> None:
    places = {f"w{rank}": rpc.remote(f"w{rank}", Position) for rank in range(3)}
    for rank, place in enumerate(places.values()):
        place.rpc_sync().go_to(rank, rank)
    rngs = {name: rpc.remote(name, dcp.RngState) for name in places}
    dcp.save({"data": places, "rng": rngs, "step": 4}, checkpoint_id=tmp_path)
    drawn = {name: rpc.rpc_sync(name, fastdist.rand, (3,)).tolist() for name in places}
    for place in places.values():
        place.rpc_sync().go_to(9)
    state = {"data": places, "rng": rngs, "step": 0}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["step"] == 4
    assert [place.rpc_sync().go_to() for place in places.values()] == [[0, 0], [1, 1], [2, 2]]
    again = {name: rpc.rpc_sync(name, fastdist.rand, (3,)).tolist() for name in places}
    assert again == drawn


def number_here(rank: int) -> Any:
    return {"number": rank}


@on_worker(0)
def test_two_workers_with_different_things_under_one_key_are_told_of_it(tmp_path: Path) -> None:
    both = [rpc.remote(f"w{rank}", number_here, (rank,)) for rank in (1, 2)]
    with pytest.raises(
        dcp.CheckpointException,
        match=r"^'x\.number' differs between 'w1' and 'w2'; .* name into it; pass",
    ):
        dcp.save({"x": both}, checkpoint_id=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    alike = [rpc.remote(f"w{rank}", number_here, (7,)) for rank in (1, 2)]
    dcp.save({"x": alike}, checkpoint_id=tmp_path / "a")
    found = {"x": {"number": 0}}
    dcp.load(found, checkpoint_id=tmp_path / "a")
    assert found == {"x": {"number": 7}}


# ---- several workers save and load together -----------------------------------------------------


def rows(count: int, world_size: int) -> tuple[int, int]:
    rank = rpc.get_worker_info().id
    return count * rank // world_size, count * (rank + 1) // world_size


def save_rows(folder: str, names: list[str], is_async: bool) -> list[str]:
    start, end = rows(10, len(names))
    table = fastdist.arange(20.0).reshape(10, 2)[start:end].clone()
    own = rpc.get_worker_info().name
    part = dcp.ShardedTensor.from_local(table, (start, 0), (10, 2))
    state = {"table": part, "rng": {own: dcp.RngState()}, "step": 3}
    if is_async:
        future = dcp.async_save(state, checkpoint_id=folder, process_group=names)
        table.zero_()
        return sorted(future.wait().workers.values())
    return sorted(dcp.save(state, checkpoint_id=folder, process_group=names).workers.values())


def load_rows(folder: str, world_size: int) -> list[Any]:
    start, end = rows(10, world_size)
    table = fastdist.zeros(end - start, 2)
    state = {"table": dcp.ShardedTensor.from_local(table, (start, 0), (10, 2)), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert state["step"] == 3
    return table.tolist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("savers", "loaders"), [(3, 2), (2, 3), (1, 3), (3, 1)])
def test_a_table_saved_by_some_workers_is_loaded_by_others(
    savers: int, loaders: int, is_async: bool, group: Group, tmp_path: Path
) -> None:
    names = [f"w{rank}" for rank in range(savers)]
    for folder in ("a", "b"):
        for rank in range(savers):
            group[rank].start(save_rows, str(tmp_path / folder), names, is_async)
        assert [group[rank].result() for rank in range(savers)] == [names] * savers
    for rank in range(loaders):
        group[rank].start(load_rows, dcp.latest(tmp_path, verify=True), loaders)
    found = [row for rank in range(loaders) for row in group[rank].result()]
    assert found == fastdist.arange(20.0).reshape(10, 2).tolist()


def save_and_tell(folder: str, names: list[str]) -> str:
    try:
        save_rows(folder, names, False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "saved"


def test_an_error_of_one_is_the_error_of_all(group: Group, tmp_path: Path) -> None:
    names, folder = ["w0", "w1", "w2"], str(tmp_path / "a")
    group[2].run(fill_disk, True)
    told = group.run_all(save_and_tell, folder, names)
    group[2].run(fill_disk, False)
    assert all("No space left on device" in words for words in told), told
    assert not os.path.exists(folder)
    assert group.run_all(save_and_tell, folder, names) == ["saved"] * 3


def with_timeout(seconds: float, function: Any, *args: Any) -> Any:
    before = rpc.get_rpc_timeout()
    rpc._set_rpc_timeout(seconds)
    try:
        return function(*args)
    finally:
        rpc._set_rpc_timeout(before)


def test_who_does_not_come_is_named(group: Group, tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    told = group[0].run(with_timeout, 0.3, save_and_tell, folder, ["w0", "w1"])
    assert "the worker 'w1' did not come to save with 'w0' within 0.3 s" in told
    assert not os.path.exists(folder)


@on_worker(0)
def test_a_group_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dcp.CheckpointException, match=r"names each worker that saves once, this"):
        dcp.save({}, checkpoint_id=tmp_path, process_group=["w1", "w2"])
    with pytest.raises(RuntimeError, match="nobody"):
        dcp.save({}, checkpoint_id=tmp_path, process_group=["w0", "nobody"])
    with pytest.raises(TypeError, match="expected a list of workers' names, got 'w0'"):
        dcp.save({}, checkpoint_id=tmp_path, process_group="w0")


def save_streams(folder: str) -> bool:
    streams = {name: rpc.remote(name, dcp.RngState) for name in ("w0", "w1")}
    dcp.async_save({"rng": streams}, checkpoint_id=folder).wait()
    fastdist.rand(3)
    drawn = fastdist.get_rng_state().tolist()
    dcp.load({"rng": streams}, checkpoint_id=folder)
    return fastdist.get_rng_state().tolist() != drawn


def test_workers_in_strict_mode_save_and_load(tmp_path: Path) -> None:
    with members(__file__, 2, rpc_timeout=30, init_timeout=30, strict=True) as group:
        assert group[0].run(save_streams, str(tmp_path / "a"))
        for rank in range(2):
            group[rank].start(save_rows, str(tmp_path / "b"), ["w0", "w1"], False)
        assert [group[rank].result() for rank in range(2)] == [["w0", "w1"]] * 2


# ---- a worker that dies -------------------------------------------------------------------------


def save_split(folder: str) -> str:
    try:
        dcp.save(Split(("w1", 2), ("w2", 2)).state(), checkpoint_id=folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "saved"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("save", ["split", "together"])
def test_a_worker_killed_while_it_writes_fails_the_save_with_its_name(
    save: str, tmp_path: Path
) -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(join, {"rpc_timeout": 30, "init_timeout": 30})
        folder, names = str(tmp_path / "a"), ["w0", "w1", "w2"]
        group[2].run(save_at_gate, "killed")
        if save == "together":
            for rank in range(3):
                group[rank].start(save_and_tell, folder, names)
            wait_for_parts(folder, 2)
        else:
            group[0].start(save_split, folder)
            group[1].run(rpc.rpc_sync, "w2", wait_for_arrivals, ("killed", 1))
        group[2].kill(signal.SIGKILL)
        told = group[0].result(DEADLINE_S)
        assert "WorkerLostError" in told and "w2" in told, told
        if save == "together":
            assert "w2" in group[1].result(DEADLINE_S)
        assert not os.path.exists(folder)
        for rank in (0, 1):
            group[rank].start(leave_without, "w2")
        assert [group[rank].result() for rank in (0, 1)] == [None, None]
    finally:
        group.kill()


def wait_for_parts(folder: str, number: int) -> None:
    """Wait until `number` workers have written their parts."""
    deadline = time.monotonic() + DEADLINE_S
    while sum(name.endswith(".pt") for _, _, names in os.walk(folder) for name in names) < number:
        assert time.monotonic() < deadline, f"no {number} parts in {folder!r}"
        threading.Event().wait(0.01)
