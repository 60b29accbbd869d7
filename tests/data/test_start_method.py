"""A process with other threads does not fork workers, unless the threads are about to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastdist.data import start_method
from tests.data.test_workers import printed


@pytest.mark.parametrize(
    ("looks", "count"),
    [
        ([], 0),
        (["S"] * 3, 0),
        (["R"] * 30, 0),
        (["R", "S"] * 15, 0),
        (repeat("S"), 1),
        (repeat("R"), 1),
    ],
    ids=["alone", "moment", "no core", "woken", "waits", "computes"],
)
def test_another_thread_is_given_time_to_end_while_it_is_not_asleep(
    looks: Iterator[str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = chain(({1: one} for one in looks), repeat({}))
    ticks = iter(range(10_000))
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * 0.01)
    monkeypatch.setattr(start_method, "time", clock)
    monkeypatch.setattr(start_method, "_states_of_others", lambda: next(states))
    assert start_method._count_others() == count


def test_each_other_thread_has_a_state() -> None:
    over = threading.Event()
    # The name contains the characters that delimit the name field in /proc.
    thread = threading.Thread(target=over.wait, name="a) R (b")
    thread.start()
    states = start_method._states_of_others()
    over.set()
    thread.join()
    assert thread.native_id in states and threading.get_native_id() not in states
    assert all(state.isalpha() for state in states.values())


UNGUARDED = """
import warnings
done = threading.Event()
threading.Thread(target=done.wait, name="waiting").start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for epoch in range(2):
        data = TensorDataset(fastdist.arange(4))
        for batch in DataLoader(data, 2, num_workers=2, collate_fn=lambda rows: len(rows)):
            print(batch)
done.set()
print([str(one.message) for one in caught if one.category is UserWarning])
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_file", [True, False])
def test_workers_of_what_cannot_be_imported_again_are_forked_with_a_warning(
    tmp_path: Path, is_file: bool
) -> None:
    if is_file:
        *batches, warned = printed(tmp_path, UNGUARDED)
        reason = "no_guard.py has no `if __name__ == '__main__':`"
    else:
        text = f"exec({UNGUARDED!r}, vars(sys.modules['__main__']))"
        *batches, warned = printed(tmp_path, f"del __file__\n{text}")
        reason = "the program is not a file"
    assert batches == ["2"] * 4
    assert warned.count("DataLoader forks its workers") == 1
    assert f"although this process has other threads (waiting): {reason}" in warned
