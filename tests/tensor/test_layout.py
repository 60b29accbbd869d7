"""Equal layouts are one object, even if other code makes an equal layout at the same time."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
import pytest

import fastdist
from fastdist.core.device import CPU, Device
from fastdist.core.dtypes import float32, float64
from fastdist.tensor.layout import Layout
from fastdist.tensor.tensor import layout_near, layout_of


def test_a_finalizer_may_make_layouts_while_one_is_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Layout] = []

    class Struck(WeakValueDictionary[Any, Any]):
        """A dictionary that makes other layouts during an assignment, as a finalizer could."""

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


ARRAYS = [
    pytest.param(np.zeros((3, 4), np.float32), id="as it"),
    pytest.param(np.broadcast_to(np.float32(1), (3, 4)), id="one number"),
    pytest.param(np.broadcast_to(np.zeros(4, np.float32), (3, 4)), id="one row"),
    pytest.param(np.zeros((4, 3), np.float32).T, id="turned"),
    pytest.param(np.broadcast_to(np.float64(1), (3, 4)), id="of another dtype"),
    pytest.param(np.broadcast_to(np.float32(1), (4, 3)), id="of another shape"),
    pytest.param(np.zeros((), np.float32), id="of no axes"),
]


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("array", ARRAYS)
def test_the_layout_near_another_is_that_of_the_array(array: Any, dtype: Any) -> None:
    near = Layout.of(dtype, CPU, (3, 4))
    for _ in range(2):
        assert layout_near(array, near) is layout_of(array, CPU)


def test_the_layout_of_one_number_lives_as_long_as_that_of_many() -> None:
    near, one = Layout.of(float32, CPU, (3, 41)), np.broadcast_to(np.float32(1), (3, 41))
    kept = ref(layout_near(one, near))
    assert kept() is not None
    whole = Layout.of(float32, CPU, ())
    known = {*whole.routes}  # earlier tests may have added some
    assert layout_near(np.zeros((), np.float32), whole) is whole and {*whole.routes} == known
    del near
    Layout._recent.clear()
    assert kept() is None


def test_the_layouts_made_last_live_on_without_a_tensor_and_others_do_not() -> None:
    first = ref(Layout.of(float32, CPU, (3, 43)))
    most = Layout._recent.maxlen or 0
    made = [ref(Layout.of(float32, CPU, (5, n))) for n in range(100, 99 + most)]
    assert first() is Layout.of(float32, CPU, (3, 43)) and all(one() for one in made)
    made.append(ref(Layout.of(float32, CPU, (5, 300))))
    assert first() is None and all(one() for one in made)
    on_gpu = ref(Layout.of(float32, Device("cuda", 0), (3, 43)))
    assert on_gpu() is None


def test_a_size_takes_tensors_for_lengths() -> None:
    assert fastdist.Size([fastdist.tensor(3), 2]) == (3, 2)
    assert all(type(n) is int for n in fastdist.Size([fastdist.tensor(3), 2]))
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'float'\)"):
        fastdist.Size([1, 2.0])  # type: ignore[list-item]
