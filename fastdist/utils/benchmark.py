"""`Timer`: measures the run time of a statement, under PyTorch's names."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean, median, quantiles
from typing import Any

from ..core.folded_frames import fold_methods
from ..core.missing import explain_missing
from ..namespace.threads import get_num_threads, set_num_threads

__all__ = ["Measurement", "Timer", "timer"]

timer = timeit.default_timer
# The minimal duration of a block of runs, so that the overhead of the clock is negligible.
_BLOCK_S = 1e-3


class Measurement:
    """Measured times: `raw_times` has the time of each block of `number_per_run` runs.

    Units   seconds; `times`, `mean`, `median` and `iqr` are per run
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        title: str = "",
        num_threads: int = 1,
    ) -> None:
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.title = title
        self.num_threads = num_threads

    @property
    def times(self) -> list[float]:
        """The time per run in each block."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return fmean(self.times)

    @property
    def median(self) -> float:
        """The median of `times`."""
        return median(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of `times`."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        count = len(self.raw_times)
        lines = [f"<fastdist.utils.benchmark.Measurement object at {id(self):#x}>", self.title]
        if count > 1:
            lines += [f"  Median: {_duration(self.median)}", f"  IQR:    {_duration(self.iqr)}"]
        else:
            lines.append(f"  {_duration(self.mean)}")
        runs = f"{self.number_per_run} runs{' per measurement' if count > 1 else ''}"
        threads = f"{self.num_threads} thread{'s' * (self.num_threads > 1)}"
        lines.append(f"  {count} measurement{'s' * (count > 1)}, {runs}, {threads}")
        return "\n".join(line for line in lines if line)


@fold_methods
class Timer:
    """Measures the run time of `stmt` after `setup`, both run with the variables in `globals`.

    Kernels use `num_threads` threads. `label`, `sub_label` and `description` appear in the printed
    result.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
    ) -> None:
        if global_setup:
            raise ValueError(
                f"global_setup is C++, stmt is Python. Got: `{global_setup}`; put it in setup"
            )
        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        self._title = ": ".join(part for part in (label or stmt, sub_label, description) if part)
        self._num_threads = num_threads
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Return the time of one block of `number` runs, after some warm-up runs."""
        with _threads(self._num_threads):
            self._timer.timeit(max(number // 100, 2))
            return self._measured(number, [self._timer.timeit(number)])

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Measure blocks of runs until their times add up to `min_run_time`; return all times. A
        block is so long that the overhead of the clock is negligible. callback(runs, time) is
        called after each block.

        Units   seconds
        """
        with _threads(self._num_threads):
            number = self._number_of_a_block(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def _number_of_a_block(self, min_run_time: float) -> int:
        number = 1
        while True:
            took = self._timer.timeit(number)
            if took >= min(_BLOCK_S, min_run_time / 10):
                return number
            number *= 10 if took * 100 < _BLOCK_S else 2

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._title, self._num_threads)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = get_num_threads()
    if number != before:
        set_num_threads(number)
    try:
        yield
    finally:
        if number != before:
            set_num_threads(before)


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.2f} ns"


explain_missing(__name__)
