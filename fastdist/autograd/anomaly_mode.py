"""`detect_anomaly`: find the op whose gradient computation fails or returns NaN."""

from __future__ import annotations

from types import TracebackType

from ..graph.anomaly import anomaly, set_anomaly_mode


class set_detect_anomaly:
    """Switch anomaly mode on or off. As a context manager, restore the former mode on exit.

    Note    slow: every op takes the general path, and every Node keeps a traceback
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        try:
            set_anomaly_mode(bool(mode), check_nan)
        except BaseException:  # Ctrl-C after the switch: no __exit__ would restore the mode
            set_anomaly_mode(*self._before)
            raise

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
    """A block in anomaly mode: a backward pass raises an error at the first NaN, and an error in a
    Node shows the traceback of the forward call that recorded the Node.
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
