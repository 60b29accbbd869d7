"""`emit_nvtx`: reports ops and gradients as NVTX ranges, which NVIDIA's profilers show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from ..devices.backend import backend_of
from ..graph import recordings
from ..instrumentation.time_ranges import Recording, TimeRange, Wanted
from .given import is_asked_for

_next_op_id: Final[Callable[[], int]] = itertools.count(1).__next__


class emit_nvtx:
    """A block in which each op, gradient and record_function block is an NVTX range.

    `nsys profile python train.py` shows the ranges above the kernels that were launched in them.

    Range names are PyTorch's: "aten::mul, seq = 5, op_id = 8, sizes = [[2, 3], []]". The sizes are
    included if record_shapes is set. `seq` is the number of the Node that the op records. If
    several threads record at the same time, `seq` is a guess. Remote calls are not recorded on
    other workers.

    Raises  DeviceError without CuPy or a GPU; RuntimeError for a second entry before the exit
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = is_asked_for("emit_nvtx(record_shapes)", record_shapes)
        self._emitted: _Emitted | None = None

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self._emitted is not None:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        from ..devices.cuda.nvtx import nvtx  # imported here, because it loads CuPy

        emitted = _Emitted(nvtx(), Wanted(shapes=self.record_shapes))
        backend_of("cuda").synchronize()
        self._emitted = emitted
        recordings.begin(emitted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        emitted, self._emitted = self._emitted, None
        if emitted is not None:
            try:
                backend_of("cuda").synchronize()
            finally:
                recordings.end(emitted)


class _Emitted(Recording):
    """Emits a range for each event, and stores nothing."""

    follows_calls = False
    warns_of_calls = True
    hears_beginnings = True
    adds_ops = False

    def __init__(self, nvtx: Any, wanted: Wanted) -> None:
        super().__init__(wanted=wanted)
        self._push, self._pop = nvtx.RangePush, nvtx.RangePop

    def take(self, known: TimeRange) -> None:
        """Ignore the range: nothing is stored."""

    def take_op(self, given: tuple[Any, ...]) -> None:
        """Ignore the range: nothing is stored."""

    def began(self, name: str, category: str, more: Mapping[str, Any]) -> None:
        """Push an NVTX range."""
        number = more.get("sequence_nr", -1)
        text = f"{name}, seq = {number}" if number >= 0 else name
        text += f", op_id = {_next_op_id()}"
        shapes = more.get("shapes", ()) if self.wanted.shapes else ()
        if shapes:
            text += f", sizes = {[list(shape) for shape in shapes]}"
        self._push(text)

    def ended(self) -> None:
        """Pop the NVTX range."""
        self._pop()
