"""`detect_anomaly`: find the op whose gradient fails or is not a number."""

from __future__ import annotations

from types import TracebackType

from ..graph.anomaly import anomaly, set_anomaly_mode


class set_detect_anomaly:
    """Switch anomaly mode on or off, at once; as a context manager for the block alone.

    Note    slow: each op takes the general path, each Node keeps a traceback
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        set_anomaly_mode(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_anomaly_mode(*self._before)


class detect_anomaly:
    """A block in anomaly mode: a backward pass in it raises at the first NaN, and an error in a
    Node comes with the traceback of the forward call that recorded it.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((anomaly.enabled, anomaly.check_nan))
        set_anomaly_mode(True, self._check_nan)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_anomaly_mode(*self._before.pop())
