"""No lock of levels and tangents is held while another is acquired or a tangent is freed."""

from __future__ import annotations

import threading
import weakref

import pytest

from fastdist.graph.forward_grad import ForwardADLevel, ForwardGrad
from tests.graph.test_forward_grad import Value


@pytest.mark.seed("F9", "F11")
def test_tangent_dies_outside_of_the_locks() -> None:
    level = ForwardADLevel.get_next_idx()
    seen: list[object] = []
    at, inner, outer = ForwardADLevel.get_by_idx(level), ForwardGrad(), ForwardGrad()
    inner.set_value("tangent of the tangent", level)
    value = Value(inner)

    def take_all_locks(at: ForwardADLevel) -> None:
        seen.extend([ForwardADLevel.try_get_by_idx(level), len(at), outer.contains(at)])

    def look_from_another_thread(at: ForwardADLevel) -> None:
        # Called when the tangent is freed. If a lock is held at that time, the other thread blocks.
        thread = threading.Thread(target=take_all_locks, args=(at,))
        thread.start()
        thread.join(5)

    weakref.finalize(value, look_from_another_thread, at)
    outer.set_value(value, level)
    del value
    ForwardADLevel.release_idx(level)
    assert seen == [None, 0, False]
    at = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    value = Value()
    weakref.finalize(value, look_from_another_thread, at)
    outer.set_value(value, at)
    del value
    outer.clear()
    assert seen[3:] == [at, 0, False]
    ForwardADLevel.release_idx(0)


class OnlyOne:
    """A lock that fails if the thread already holds another lock of this class."""

    held = threading.local()

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        mine = self.held.__dict__.setdefault("locks", [])
        assert all(other is self for other in mine), "two locks are held together"
        self._lock.acquire()
        mine.append(self)

    def __exit__(self, *error: object) -> None:
        self.held.locks.pop()
        self._lock.release()


@pytest.mark.seed("F14")
def test_no_lock_is_taken_while_another_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastdist.graph.forward_grad._levels_lock", OnlyOne())
    level = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    level._grads_lock = OnlyOne()  # type: ignore[assignment]
    grads = [ForwardGrad() for _ in range(4)]
    for grad in grads:
        grad._content_lock = OnlyOne()  # type: ignore[assignment]
        # Freeing this tangent frees another one, which has a tangent itself.
        inner = ForwardGrad()
        inner.set_value("inner", level)
        grad.set_value(Value(inner), 0)
        assert grad.contains(0) and grad.value(level) is not None
        del inner
    grads[0].reset(0)
    grads[1].clear()
    del grads[2], grad
    ForwardADLevel.release_idx(0)
    assert all(grad.empty() for grad in grads)
