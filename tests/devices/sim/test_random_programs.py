"""Random programs on many streams compute NumPy's results, whatever the delays of the streams."""

from __future__ import annotations

import random
from contextlib import ExitStack

import numpy as np
import pytest

from fastdist.devices.sim import SimArray, SimBackend, SimEvent

SIZES = [3, 40, 40, 700]


class Slot:
    """An array, its expected values, and the events of its last write and reads."""

    def __init__(self, array: SimArray, values: np.ndarray, written: SimEvent) -> None:
        self._array, self.values, self.written = array, values, written
        self.read: list[SimEvent] = []


class Program:
    """Draws random operations, orders them by events, and tracks the expected values."""

    def __init__(self, sim: SimBackend, seed: int) -> None:
        self.sim = sim
        self.random = random.Random(seed)
        self.streams = [[sim.stream(index) for _ in range(3)] for index in (0, 1)]
        self.slots: list[Slot] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.choice([self.create, self.create, self.add, self.copy, self.drop])
            step()
        for slot in self.slots:
            stream = self.random.choice(self.streams[self.sim.index_of(slot._array)])
            stream.wait_event(slot.written)
            with stream:
                assert np.array_equal(self.sim.to_numpy(slot._array), slot.values)

    def create(self) -> None:
        index = self.random.randrange(2)
        values = np.full(self.random.choice(SIZES), self.random.randrange(9), np.float64)
        with self.random.choice(self.streams[index]) as stream:
            array = self.sim.from_numpy(values, index)
            self.slots.append(Slot(array, values, stream.record_event()))

    def add(self) -> None:
        self.update(
            lambda a, b: self.sim.index_of(a._array) == self.sim.index_of(b._array), add=True
        )

    def copy(self) -> None:
        self.update(lambda a, b: True, add=False)

    def drop(self) -> None:
        if self.slots:
            self.slots.pop(self.random.randrange(len(self.slots)))

    def update(self, allowed: object, *, add: bool) -> None:
        pairs = [
            (a, b)
            for a in self.slots
            for b in self.slots
            if a is not b and a._array.shape == b._array.shape and allowed(a, b)  # type: ignore[operator]
        ]
        if not pairs:
            return
        out, source = self.random.choice(pairs)
        with ExitStack() as entered:
            used = {}
            for slot in (out, source):
                index = self.sim.index_of(slot._array)
                if index not in used:
                    used[index] = self.random.choice(self.streams[index])
                    entered.enter_context(used[index])
                stream = used[index]
                stream.wait_event(slot.written)
                self.sim.record_stream(slot._array, stream)
            writer = used[self.sim.index_of(out._array)]
            for event in out.read:
                writer.wait_event(event)
            if add:
                self.sim.add_into(out._array, source._array)
                out.values = out.values + source.values
            else:
                self.sim.copy_into(out._array, source._array)
                out.values = source.values.copy()
            out.written, out.read = writer.record_event(), []
            # The stream of `source` has waited for the copy, so an event of it covers the read.
            source.read.append(used[self.sim.index_of(source._array)].record_event())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lazy", [False, True])
def test_random_program_agrees_with_numpy(sim: SimBackend, seed: int, lazy: bool) -> None:
    sim.behaviour.lazy = lazy
    with sim.behaviour.delays(seed, longest_s=0.0005):
        Program(sim, seed).run(120)


def test_random_program_without_waits_is_found_out(
    sim: SimBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim.behaviour.lazy = True
    program = Program(sim, 0)
    for stream in [*program.streams[0], *program.streams[1]]:
        monkeypatch.setattr(stream, "wait_event", lambda event: None)
    with pytest.raises(AssertionError):
        program.run(120)
