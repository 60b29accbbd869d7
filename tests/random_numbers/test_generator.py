"""Generators: seeds, states, and threads that draw at the same time."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import fastdist
from fastdist.core.device import CPU, Device
from fastdist.random_numbers import generator
from fastdist.random_numbers.generator import Generator, default_generator_of, manual_seed
from tests.disturbances.interrupts import each_ctrl_c

F4, F8 = np.dtype("float32"), np.dtype("float64")


def test_same_seed_gives_the_same_numbers() -> None:
    first, second = Generator().manual_seed(7), Generator().manual_seed(7)
    for _ in range(2):
        assert np.array_equal(first.normal((3, 5), F4), second.normal((3, 5), F4))
    assert not np.array_equal(first.uniform((8,), F8), Generator().manual_seed(8).uniform((8,), F8))


def test_device_does_not_change_the_numbers() -> None:
    on_cpu, on_sim = Generator().manual_seed(1), Generator("sim:1").manual_seed(1)
    assert np.array_equal(on_cpu.uniform((9,), F4), on_sim.uniform((9,), F4))
    assert on_sim.device is Device("sim:1")


def test_draws_follow_each_other_without_overlap() -> None:
    parts = Generator().manual_seed(3)
    whole = Generator().manual_seed(3).uniform((12,), F4)
    assert np.array_equal(np.concatenate([parts.uniform((4,), F4) for _ in range(3)]), whole)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [F4, F8])
def test_draw_reserves_all_that_it_uses(count: int, dtype: np.dtype[np.generic]) -> None:
    drawn = Generator().manual_seed(3)
    drawn.normal((count,), dtype)
    rest = drawn.uniform((4,), F4)
    used = -(-(count + count % 2) * (2 if dtype == F8 else 1) // 4)
    assert drawn.reserve(0) == (3, used + 1)
    assert np.array_equal(rest, Generator().manual_seed(3).uniform((4 * used + 4,), F4)[-4:])


def test_state_lets_another_generator_go_on() -> None:
    first = Generator().manual_seed(-1)
    first.normal((5,), F4)
    second = Generator()
    second.set_state(first.get_state())
    copied = pickle.loads(pickle.dumps(first))
    expected = first.permutation(9)
    assert np.array_equal(second.permutation(9), expected)
    assert np.array_equal(copied.permutation(9), expected)
    assert second.initial_seed() == (1 << 64) - 1


@pytest.mark.parametrize("state", [np.zeros(15, np.uint8), np.zeros(16, np.int8), np.zeros((4, 4))])
def test_state_of_another_kind_is_refused(state: np.ndarray) -> None:
    with pytest.raises(RuntimeError, match="expected 16 bytes of dtype uint8"):
        Generator().set_state(state)


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1])
def test_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(RuntimeError, match="is not in"):
        Generator().manual_seed(seed)


def test_seed_must_be_an_integer() -> None:
    with pytest.raises(TypeError):
        Generator().manual_seed(1.5)  # type: ignore[arg-type]


def test_seed_nobody_can_foresee_differs_each_time() -> None:
    drawn = Generator()
    assert drawn.seed() != drawn.seed()
    assert drawn.initial_seed() != generator.DEFAULT_SEED


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 3)])
def test_integers_of_an_empty_range_are_refused(low: int, high: int) -> None:
    with pytest.raises(RuntimeError, match=r"^random_ expects 'from' to be less than 'to'"):
        Generator().integers(low, high, (2,))


def test_integers_that_int64_cannot_hold_are_refused() -> None:
    with pytest.raises(RuntimeError, match="does not fit int64"):
        Generator().integers(0, (1 << 63) + 1, (2,))


def test_threads_that_draw_at_once_share_no_numbers() -> None:
    shared = Generator().manual_seed(5)
    drawn: list[np.ndarray] = []

    def work() -> None:
        drawn.extend([shared.integers(-(1 << 63), 1 << 63, (4,)) for _ in range(50)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    whole = Generator().manual_seed(5).integers(-(1 << 63), 1 << 63, (800,))
    assert sorted(np.concatenate(drawn).tolist()) == sorted(whole.tolist())


def test_manual_seed_reaches_the_generators_of_all_devices_known_or_not() -> None:
    before = generator.initial_seed()
    known = default_generator_of(Device("sim:0"))
    try:
        assert manual_seed(11) is default_generator_of(CPU)
        later = default_generator_of(Device("sim:63"))
        assert [known.initial_seed(), later.initial_seed(), generator.initial_seed()] == [11] * 3
        assert generator.seed() == generator.initial_seed()
    finally:
        manual_seed(before)


def test_nothing_is_drawn_twice_while_a_seed_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before, drawn = generator.initial_seed(), list[tuple[int, int]]()
    default, set_one = default_generator_of(CPU), Generator.manual_seed

    def preempted(self: Generator, seed: int) -> Generator:
        set_one(self, seed)
        drawn.append(default.reserve(1))  # another thread might draw here
        return self

    default_generator_of(Device("sim:0"))
    monkeypatch.setattr(Generator, "manual_seed", preempted)
    try:
        manual_seed(17)
        drawn.append(default.reserve(1))
    finally:
        monkeypatch.undo()
        manual_seed(before)
    assert len(drawn) == len(set(drawn))


def test_a_handler_of_a_signal_may_save_the_state_that_its_thread_saves() -> None:
    drawn = Generator().manual_seed(3)
    for _ in each_ctrl_c(lambda: lambda: (drawn.get_state(), drawn.reserve(1)), drawn.get_state):
        assert drawn.initial_seed() == 3


def test_processes_that_nobody_has_seeded_draw_other_numbers() -> None:
    command = [sys.executable, "-c", "import fastdist as f; print(f.initial_seed(), f.rand(3))"]
    drawn = {
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in "ab"
    }
    assert len(drawn) == 2


def test_the_state_is_a_tensor_of_bytes_and_set_state_returns_the_generator() -> None:
    generator = fastdist.Generator().manual_seed(5)
    state = generator.get_state()
    assert isinstance(state, fastdist.Tensor) and state.dtype is fastdist.uint8
    first = fastdist.rand(3, generator=generator).tolist()
    assert generator.set_state(state) is generator
    assert fastdist.rand(3, generator=generator).tolist() == first


def test_manual_seed_takes_what_int_takes() -> None:
    assert manual_seed("12").initial_seed() == manual_seed(12.5).initial_seed() == 12  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid literal"):
        manual_seed("a")  # type: ignore[arg-type]


def test_a_generator_whose_init_is_skipped_draws_on_the_cpu() -> None:
    class Named(Generator):
        def __init__(self, name: str) -> None:
            self.name = name

    one, other = Named("a"), Generator()
    assert one.initial_seed() == other.initial_seed()
    assert one.manual_seed(3).initial_seed() == 3 and Generator().initial_seed() != 3
