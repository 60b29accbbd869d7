"""DataLoader with worker processes: the same batches, and what happens when a worker fails."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
    worker_pool,
    worker_process,
)
from fastdist.random_numbers.generator import Generator
from tests.standstill import freeze


class Squares(Dataset[int]):
    """Squares of 0 ... count-1; a read of index `kills` or `exits` ends the worker."""

    def __init__(self, count: int, *, kills: int = -1, raises: int = -1, exits: int = -1) -> None:
        self.count, self.kills, self.raises, self.exits = count, kills, raises, exits

    def __getitem__(self, index: int) -> int:
        if index == self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.exits:
            os._exit(3)
        if index == self.raises:
            raise ZeroDivisionError(f"no square of {index}")
        return index * index

    def __len__(self) -> int:
        return self.count


class Large(Dataset[Any]):
    """Its batches of samples and its batches of indices are both larger than a pipe's buffer."""

    def __getitem__(self, index: int) -> Any:
        return fastdist.full((100,), index)

    def __len__(self) -> int:
        return 60_000


def channels_last(images: list[Any]) -> Any:
    return fastdist.stack(images).to(memory_format=fastdist.channels_last)


class Images(Dataset[Any]):
    """Small pictures of three colours."""

    def __getitem__(self, index: int) -> Any:
        return fastdist.arange(24.0).reshape(3, 2, 4) + index

    def __len__(self) -> int:
        return 4


def test_batches_of_workers_lie_as_they_were_made() -> None:
    for batch in DataLoader(Images(), 2, num_workers=1, collate_fn=channels_last):
        assert batch.is_contiguous(memory_format=fastdist.channels_last)
        assert not batch.is_contiguous()
        assert (batch - batch[0, 0, 0, 0])[0].tolist() == Images()[0].tolist()


class Random(Dataset[Any]):
    """Random numbers from the generators of a worker."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        numbers = random.random(), float(np.random.random())  # noqa: NPY002
        return (info.id, info.num_workers, *numbers, fastdist.rand(1).item())

    def __len__(self) -> int:
        return 4


class Share(IterableDataset[int]):
    """Each worker's share of 0 ... 6."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        return iter(range(info.id, 7, info.num_workers))


def lists(loader: DataLoader[Any]) -> list[Any]:
    return [batch.tolist() for batch in loader]


def steps(loader: DataLoader[Any]) -> list[Any]:
    """Return the batches and the types of the exceptions, in order."""
    found: list[Any] = []
    batches = iter(loader)
    while True:
        try:
            found.append(next(batches).tolist())
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error))


def shuffled(num_workers: int, **options: Any) -> list[Any]:
    generator = Generator().manual_seed(2)
    loader = DataLoader(
        Squares(11), 2, shuffle=True, num_workers=num_workers, generator=generator, **options
    )
    epochs = [lists(loader), lists(loader)]
    loader.close()
    return epochs


def test_any_number_of_workers_makes_the_same_batches() -> None:
    assert shuffled(2) == shuffled(0)


def test_persistent_workers_make_the_same_batches() -> None:
    assert shuffled(1, persistent_workers=True) == shuffled(0)


def test_persistent_workers_live_on_until_they_are_closed() -> None:
    loader = DataLoader(Pids(), num_workers=1, persistent_workers=True)
    first, second = lists(loader), lists(loader)
    loader.close()
    assert first == second
    assert lists(loader) != first
    loader.close()


class Pids(Dataset[int]):
    """Yields the id of the process that reads the item."""

    def __getitem__(self, index: int) -> int:
        return os.getpid()

    def __len__(self) -> int:
        return 1


def test_workers_know_who_they_are_and_draw_reproducibly_and_differently() -> None:
    def drawn(seed: int) -> list[Any]:
        generator = Generator().manual_seed(seed)
        return list(DataLoader(Random(), None, num_workers=2, generator=generator))

    first, second, other = drawn(1), drawn(1), drawn(2)
    assert [row[:2] for row in first] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert first == second
    assert all(len({row[i] for row in first + other}) == 8 for i in (2, 3, 4))


def test_shares_of_an_iterable_dataset_come_in_turns() -> None:
    assert lists(DataLoader(Share(), 2, num_workers=2)) == [[0, 2], [1, 3], [4, 6], [5]]


def test_large_batches_and_large_requests_do_not_wait_for_each_other() -> None:
    loader = DataLoader(Large(), 20_000, num_workers=1, prefetch_factor=3)
    assert [batch[-1, 0].item() for batch in loader] == [19_999, 39_999, 59_999]


def test_an_exception_arrives_with_its_type_and_the_workers_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader(Squares(6, raises=4), 2, num_workers=1))
    text = str(caught.value)
    assert text.startswith("Caught ZeroDivisionError in DataLoader worker process 0.\nOriginal ")
    assert "in __getitem__" in text
    assert "no square of 4" in text


def look_up_nothing(samples: list[Any]) -> Any:
    return {}["nothing"]


def test_a_key_error_s_traceback_is_read_in_lines() -> None:
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Squares(2), num_workers=1, collate_fn=look_up_nothing))
    first, *rest = str(caught.value).splitlines()
    assert first == "Caught KeyError in DataLoader worker process 0."
    assert rest[-1] == "KeyError: 'nothing'"


class Streams(Dataset[Any]):
    """Samples that cannot be pickled, except for the first."""

    def __getitem__(self, index: int) -> Any:
        return threading.Lock() if index else index

    def __len__(self) -> int:
        return 2


def test_a_batch_that_does_not_pickle_is_told_of() -> None:
    batches = iter(DataLoader(Streams(), None, num_workers=1))
    assert next(batches) == 0
    with pytest.raises(TypeError, match=r"^Caught TypeError in DataLoader worker process 0\.") as e:
        next(batches)
    assert "cannot pickle '_thread.lock' object" in str(e.value)


def test_batches_before_an_exception_arrive() -> None:
    found: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(lists(DataLoader(Squares(6, raises=4), 2, num_workers=1)))
    loader = iter(DataLoader(Squares(6, raises=4), 2, num_workers=1))
    assert [next(loader).tolist(), next(loader).tolist()] == [[0, 1], [4, 9]]
    loader.close()  # type: ignore[attr-defined]


def test_batches_behind_an_exception_arrive_and_its_workers_persist() -> None:
    loader = DataLoader(Squares(6, raises=3), 2, num_workers=1, persistent_workers=True)
    assert [steps(loader), steps(loader)] == [[[0, 1], ZeroDivisionError, [16, 25]]] * 2
    loader.close()


class Rising(IterableDataset[int]):
    """Yields 0 and 1, raises an error, yields 3 and 4, and stops; further calls yield numbers."""

    def __iter__(self) -> Iterator[int]:
        self.last = -1
        return self

    def __next__(self) -> int:
        self.last += 1
        if self.last == 2:
            raise ZeroDivisionError
        if self.last == 5:
            raise StopIteration
        return self.last


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_iterable_dataset_goes_on_behind_an_exception_and_ends_once(num_workers: int) -> None:
    loader = DataLoader(Rising(), 2, num_workers=num_workers)
    assert steps(loader) == [[0, 1], ZeroDivisionError, [3, 4]]


class Endless(Dataset[int]):
    """A dataset with one sample that can be read; reading any other sample blocks."""

    def __getitem__(self, index: int) -> int:
        if index:
            threading.Event().wait()
        return index

    def __len__(self) -> int:
        return 8


def test_who_breaks_off_does_not_wait_for_batches_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process, "_PATIENCE_S", 0.1)  # forked workers inherit this value
    batches: Any = iter(DataLoader(Endless(), num_workers=1))
    next(batches)
    (worker,) = batches._pool._workers
    # Freeze the worker, so that it cannot end before `close` returns, even if this process pauses.
    freeze(worker.process.pid)
    batches.close()
    assert worker_pool._ending == [worker.process]
    os.kill(worker.process.pid, signal.SIGCONT)
    worker.process.join(30)
    assert worker.process.exitcode == 1
    worker_pool.forget_ended()
    assert worker_pool._ending == []


def test_a_killed_worker_is_named() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: worker 1 was killed by "
        "signal 9",
    ):
        list(DataLoader(Squares(4, kills=1), num_workers=2))


def test_a_worker_that_exits_is_named() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly: worker 0 exited with 3"):
        list(DataLoader(Squares(4, exits=0), num_workers=1))


def fail_at_start(worker_id: int) -> None:
    raise LookupError(f"worker {worker_id} finds nothing")


def test_an_exception_of_the_init_function_arrives() -> None:
    loader = DataLoader(Squares(4), num_workers=1, worker_init_fn=fail_at_start)
    with pytest.raises(LookupError, match="Caught LookupError in DataLoader worker process 0"):
        list(loader)


def wait_for_ever(samples: list[Any]) -> Any:
    signal.pause()


def test_a_worker_that_takes_too_long_is_given_up() -> None:
    loader = DataLoader(Squares(4), num_workers=1, timeout=1.5, collate_fn=wait_for_ever)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 1.5 seconds: worker 0"):
        list(loader)


def test_an_iteration_that_is_left_ends_its_workers() -> None:
    for batch in DataLoader(Squares(100), 1, num_workers=1):
        assert batch.tolist() == [0]
        break


def test_what_only_a_new_process_can_be_sent_is_not_blamed_for_another_part() -> None:
    dataset = Squares(4)
    dataset.lock = multiprocessing.get_context("spawn").Lock()  # type: ignore[attr-defined]
    dataset.table = fastdist.zeros(3).share_memory_()  # type: ignore[attr-defined]
    loader = DataLoader(dataset, num_workers=1, collate_fn=lambda samples: samples)
    with pytest.raises(TypeError, match=r"^DataLoader cannot send collate_fn \(function\) to "):
        list(loader)


def test_what_does_not_pickle_is_refused_and_named() -> None:
    loader = DataLoader(Squares(4), num_workers=2, collate_fn=lambda samples: samples)
    # Python 3.13 words this message differently.
    cannot = "Can't (pickle|get local object)"
    text = rf"^DataLoader cannot send collate_fn \(function\) to its worker processes: {cannot}"
    with pytest.raises(TypeError, match=text):
        list(loader)
    dataset = Squares(4)
    dataset.files = {"a": threading.Lock()}  # type: ignore[attr-defined]
    text = r"^DataLoader cannot send dataset\.files\['a'\] \(lock\) to its worker processes: "
    with pytest.raises(TypeError, match=text):
        list(DataLoader(dataset, num_workers=1))


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run `text` in a new process, which has no other threads; there, a warning is an error."""
    script = folder / "no_guard.py"
    script.write_text(
        "import os, sys, threading\nimport fastdist\n"
        f"from fastdist.data import DataLoader, TensorDataset, get_worker_info\n{text}"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", script],
        env={**os.environ, "PYTHONPATH": str(Path(fastdist.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )


def printed(folder: Path, text: str) -> list[str]:
    done = run_script(folder, text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_without_a_guard_is_told_so_without_a_traceback_from_each_worker(
    tmp_path: Path, method: str
) -> None:
    done = run_script(
        tmp_path,
        f"""
data = TensorDataset(fastdist.arange(8))
for batch in DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context={method!r}):
    print(batch)
""",
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "imports no_guard.py again" in line]
    assert said[0].endswith("under `if __name__ == '__main__':`")
    # Only the script prints a traceback, not its workers. Its last line names the remedy.
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert "must begin its work under `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]


FORKED = """
data = TensorDataset(fastdist.arange(4.0))
large = fastdist.ones(1500, 1500)
for epoch in range(3):
    # Kernels and products whose pools have threads, which wait when they are done.
    (large * 2 + 1).relu().sum(), large @ large
    loader = DataLoader(data, 2, num_workers=2, collate_fn=lambda rows: [
        fastdist.stack([row[0] for row in rows]), os.getppid(), fastdist.get_num_threads(),
        fastdist.initial_seed() == get_worker_info().seed, ((large * 2).sum() + 1).item()])
    for batch, parent, threads, seeded, total in loader:
        print(batch.tolist(), parent == os.getpid(), threads, seeded, total)
"""


@pytest.mark.one_in(3)
def test_workers_of_a_process_with_no_other_threads_are_forked(tmp_path: Path) -> None:
    # FORKED is a script without a `__main__` guard, and its `collate_fn` cannot be pickled.
    rows = [f"{part} True 1 True {2.0 * 1500 * 1500 + 1}" for part in ([0.0, 1.0], [2.0, 3.0])]
    assert printed(tmp_path, FORKED) == rows * 3


@pytest.mark.one_in(3)
def test_workers_of_a_process_with_other_threads_come_from_a_server(tmp_path: Path) -> None:
    told = printed(
        tmp_path,
        """
def parent(rows):
    return os.getppid()

if __name__ == "__main__":
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="waiting")
    thread.start()
    data = TensorDataset(fastdist.arange(4))
    for epoch in range(2):
        print(set(DataLoader(data, 2, num_workers=2, collate_fn=parent)) == {os.getpid()})
    try:
        list(DataLoader(data, 2, num_workers=2, collate_fn=lambda rows: rows))
    except TypeError as error:
        print(error)
    done.set()
""",
    )
    assert told[:2] == ["False", "False"]
    assert told[2].startswith("DataLoader cannot send collate_fn (function) to its worker")
    assert told[2].endswith(
        "Forked workers need no pickles, but this process has other threads (waiting)"
    )


@pytest.mark.one_in(3)
def test_a_forked_worker_ends_with_its_pool_beside_later_ones(tmp_path: Path) -> None:
    told = printed(
        tmp_path,
        """
from fastdist.data import worker_pool
worker_pool._END_TIMEOUT_S = 30.0
data = TensorDataset(fastdist.arange(4))
first, second = [DataLoader(data, 2, num_workers=1, persistent_workers=True) for _ in range(2)]
list(first), list(second)
workers = [loader._pool._workers[0].process.pid for loader in (first, second)]
first.close()
print(os.path.exists(f"/proc/{workers[0]}"), os.path.exists(f"/proc/{workers[1]}"))
second.close()
""",
    )
    assert told == ["False True"]


@pytest.mark.one_in(3)
def test_a_forked_worker_has_no_handlers_of_the_program(tmp_path: Path) -> None:
    told = printed(
        tmp_path,
        """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("mine"))
handlers = lambda rows: (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
print(*DataLoader(TensorDataset(fastdist.arange(1)), 1, num_workers=1, collate_fn=handlers))
""",
    )
    assert told == ["(<Handlers.SIG_DFL: 0>, <Handlers.SIG_IGN: 1>)"]


def wait_in_the_first(samples: list[int]) -> int:
    info = get_worker_info()
    assert info is not None
    if info.id == 0:
        with open(os.environ["FASTDIST_TEST_GATE"]) as gate:
            gate.read()
    return samples[0]


@pytest.mark.one_in(3)
def test_without_in_order_batches_come_as_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("FASTDIST_TEST_GATE", str(gate))
    loader = DataLoader(
        Squares(4),
        num_workers=2,
        in_order=False,
        collate_fn=wait_in_the_first,
        multiprocessing_context="spawn",
    )
    batches = iter(loader)
    assert [next(batches), next(batches)] == [1, 9]
    for expected in (0, 4):
        gate.write_text("")
        assert next(batches) == expected
    with pytest.raises(StopIteration):
        next(batches)


class Overlong(IterableDataset[int]):
    """A dataset of length 2 that yields 3 items."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_more_samples_than_were_told_are_warned_of(num_workers: int) -> None:
    loader = DataLoader(Overlong(), num_workers=num_workers)
    assert len(lists(loader)) == 3  # no warning, because len(loader) has not been called
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"^Length of IterableDataset .* was reported to be 2\("):
        lists(loader)


def test_a_context_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^multiprocessing_context can only be used with multi"):
        DataLoader(Squares(2), multiprocessing_context="spawn")
    with pytest.raises(ValueError, match=r"^multiprocessing_context option should specify a valid"):
        DataLoader(Squares(2), num_workers=1, multiprocessing_context="thread")
    with pytest.raises(TypeError, match=r"^multiprocessing_context option should be a valid conte"):
        DataLoader(Squares(2), num_workers=1, multiprocessing_context=1)
