"""Equal layouts are one object, whoever comes in between while one is made."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

import pytest

from fastdist.core.device import CPU
from fastdist.core.dtypes import float32
from fastdist.tensor.layout import Layout


def test_a_finalizer_may_make_layouts_while_one_is_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Layout] = []

    class Struck(WeakValueDictionary[Any, Any]):
        """Runs what a finalizer, or a signal's handler, may run at any of its lines."""

        def __setitem__(self, key: Any, layout: Any) -> None:
            if not made:
                made.append(layout)
                made.append(Layout.of(float32, CPU, (5, 1)))
                made.append(Layout.of(float32, CPU, (7, 3), (1, 7)))
            super().__setitem__(key, layout)

    monkeypatch.setattr(Layout, "_interned", Struck())
    thread = threading.Thread(
        target=lambda: made.append(Layout.of(float32, CPU, (7, 3), (1, 7))), daemon=True
    )
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()
    assert made[-1] is made[2] is made[0]
