"""Tensors with Python's numbers, with NumPy's arrays and in Python's protocols."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.device import CPU
from fastdist.tensor.layout import Layout
from fastdist.tensor.storage import Storage


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.ones(2) * 2])
def test_numpy_on_the_left_gives_a_recorded_tensor(number: Any) -> None:
    x = fastdist.ones(2, requires_grad=True)
    (number * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("convert", [float, int])
def test_several_elements_are_no_python_number(convert: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python"):
        convert(fastdist.ones(3))


def test_contains_compares_with_all_elements_and_refuses_text() -> None:
    x = fastdist.tensor([1, 2])
    assert 2 in x and 3 not in x and fastdist.tensor(1) in x
    with pytest.raises(RuntimeError, match=r"Tensor.__contains__ only supports Tensor or scalar"):
        _ = "a" in x


def test_format_takes_a_number_for_no_axes_and_refuses_a_spec_for_others() -> None:
    assert f"{fastdist.tensor(2)} {fastdist.tensor(3.14159):.2f}" == "2 3.14"
    with pytest.raises(TypeError, match=r"unsupported format string passed to"):
        format(fastdist.ones(2), ".2f")


def test_plus_gives_the_tensor_itself() -> None:
    x = fastdist.tensor([1, 2])
    assert +x is x


def test_python_s_types_name_dtypes() -> None:
    x = fastdist.zeros(2, dtype=int)
    assert x.dtype is fastdist.int64
    assert x.to(float).dtype is fastdist.float64
    assert fastdist.tensor([1], dtype=bool).dtype is fastdist.bool


def test_the_first_of_two_flags_of_to_is_non_blocking() -> None:
    x = fastdist.ones(2)
    assert x.to("cpu", fastdist.float32, True) is x
    assert x.to("cpu", fastdist.float32, False, True) is not x


def test_tensor_takes_lists_of_single_elements_as_numbers() -> None:
    assert fastdist.tensor([fastdist.ones(1), fastdist.zeros(1, 1)]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fastdist.tensor(2**63), "Overflow when unpacking long long"),
        (lambda: fastdist.linspace(0, 1, -1), "number of steps must be non-negative"),
        (lambda: fastdist.eye(-1), "n must be greater or equal to 0, got -1"),
        (lambda: fastdist.arange(float("nan")), "unsupported range: 0 -> nan"),
    ],
)
def test_numbers_without_meaning_are_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=text):
        call()


def test_backward_casts_a_gradient_of_another_dtype() -> None:
    x = fastdist.ones(2, requires_grad=True)
    (x * 2).backward(fastdist.ones(2, dtype=fastdist.float64))
    assert x.grad.dtype is fastdist.float32 and x.grad.tolist() == [2.0, 2.0]


def test_tensor_is_a_constructor_as_pytorch_s_old_one() -> None:
    assert fastdist.Tensor(2, 3).shape == (2, 3) and fastdist.Tensor().shape == (0,)
    assert fastdist.Tensor(fastdist.Size([2, 0])).shape == (2, 0)
    for data in ([1, 2], (1, 2), np.array([1, 2]), range(1, 3)):
        made = fastdist.Tensor(data)
        assert made.dtype is fastdist.float32 and made.tolist() == [1.0, 2.0]
    x = fastdist.tensor([1, 2])
    assert (
        fastdist.Tensor(x).data_ptr() == x.data_ptr() and fastdist.Tensor(x).dtype is fastdist.int64
    )
    assert fastdist.LongTensor(x).tolist() == [1, 2]
    with pytest.raises(TypeError, match="expected float32 on cpu"):
        fastdist.FloatTensor(x)
    with pytest.raises(TypeError, match="must be an integer or a tuple of integers, not str '3'"):
        fastdist.Tensor(2, "3")


def test_a_subclass_without_a_constructor_has_tensor_s() -> None:
    class Named(fastdist.Tensor):
        pass

    class Tagged(fastdist.nn.Parameter):
        pass

    assert type(Named([1.0])) is Named and Named([1.0]).tolist() == [1.0]
    assert type(Tagged(fastdist.ones(1))) is Tagged and Tagged(fastdist.ones(1)).requires_grad


@pytest.mark.parametrize("make", [fastdist.nn.Parameter, fastdist.Tensor.clone])
def test_tensors_take_attributes_and_keep_them_when_they_travel(make: Any) -> None:
    tensor = make(fastdist.ones(2))
    tensor.no_decay = True
    for twin in (copy.copy(tensor), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert twin.no_decay and twin.tolist() == [1.0, 1.0]
    assert not hasattr(tensor.clone(), "no_decay")


def test_reversed_and_adjoints_of_real_tensors() -> None:
    x = fastdist.arange(4.0).reshape(2, 2)
    assert reversed(x).tolist() == [[2.0, 3.0], [0.0, 1.0]]
    assert reversed(fastdist.tensor(1)).item() == 1
    assert x.H.tolist() == x.mH.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    with pytest.raises(RuntimeError, match=r"tensor.H is only supported on matrices"):
        _ = fastdist.ones(2, 2, 2).H
    with pytest.raises(RuntimeError, match=r"tensor.mT is only supported on matrices or batches"):
        _ = fastdist.ones(2).mT


def test_parts_and_sums_of_sizes_are_sizes() -> None:
    size = fastdist.zeros(2, 3, 4).shape
    assert size[1:].numel() == 12 and size[0] == 2
    assert repr(size[:1] + size[2:]) == "fastdist.Size([2, 4])"


def test_tensors_of_a_layout_share_one_size() -> None:
    x, y = fastdist.zeros(2, 3), fastdist.ones(2, 3)
    assert x.shape is y.shape is x.size() and type(x.shape) is fastdist.Size
    assert x.T.shape == (3, 2) and fastdist.tensor(1.0).shape == ()
    sparse = x.to_sparse()
    assert sparse.shape is sparse.shape == x.shape and type(sparse.shape) is fastdist.Size


def test_c_order_by_any_strides_is_one_layout_found_at_once(monkeypatch: Any) -> None:
    layout = Layout.of(fastdist.float32, CPU, (7, 1, 3))
    ways = [(3, 3, 1), (3, 99, 1)]
    assert all(Layout.of(fastdist.float32, CPU, (7, 1, 3), strides) is layout for strides in ways)
    monkeypatch.setattr(Layout, "_make", None)
    assert all(Layout.of(fastdist.float32, CPU, (7, 1, 3), strides) is layout for strides in ways)


def test_a_view_that_dies_while_views_are_counted_may_touch_tensors() -> None:
    storage = Storage()

    class Dying:
        def __del__(self) -> None:
            storage.bump()

    storage.views = [Dying] * 16  # type: ignore[list-item]
    counting = threading.Thread(target=storage.add_view, args=(fastdist.ones(1),), daemon=True)
    counting.start()
    counting.join(10)
    assert not counting.is_alive() and storage.version == 16


def test_an_empty_tensor_has_no_address() -> None:
    x = fastdist.zeros(3, 4)
    assert x[:, 2:2].data_ptr() == x[1:1].data_ptr() == fastdist.zeros(0).data_ptr() == 0


def test_views_that_nobody_can_walk_say_the_strides_of_their_memory() -> None:
    x = fastdist.zeros(3, 4)
    assert x[:, 2:2].stride() == (4, 1) and x[:, 2:2].t().stride() == (1, 4)
    assert x[:1].t().stride() == (1, 4) and x[None].stride() == (12, 4, 1)
    assert x[:, 2:2].is_contiguous()


def test_users_may_set_attributes_of_any_name_that_pytorch_s_tensors_do_not_have() -> None:
    x = fastdist.ones(2, requires_grad=True)
    names = ("array", "edge", "extra", "base", "mark", "value")
    for number, name in enumerate(names):
        setattr(x, name, number)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and x[0].item() == 1.0
    assert [getattr(x, name) for name in names] == [*range(len(names))]
    assert [getattr(copy.deepcopy(x), name) for name in names] == [*range(len(names))]
    assert not [name for name in ("array", "edge", "extra") if hasattr(fastdist.ones(1), name)]
