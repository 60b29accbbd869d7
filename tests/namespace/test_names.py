"""Names and keywords that PyTorch's scripts use."""

from __future__ import annotations

import math
import pickle
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.properties import Properties

F = fd.nn.functional

x = fd.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: x.mean(axis=1, keepdims=True), [[2.0], [5.0]]),
        (lambda: fd.mean(x, axis=0, keepdims=True), [[4.5, 3.0, 3.0]]),
        (lambda: x.prod(axis=0), [18.0, 5.0, 8.0]),
        (lambda: x.all(axis=1), [True, True]),
        (lambda: x.argmax(axis=1), [0, 0]),
        (lambda: x.max(axis=1, keepdims=True).values, [[3.0], [6.0]]),
        (lambda: x.var(axis=1, keepdims=True), [[1.0], [1.0]]),
        (lambda: x.cumsum(axis=0), [[3.0, 1.0, 2.0], [9.0, 6.0, 6.0]]),
        (lambda: fd.cat([x, x], axis=1).shape, (2, 6)),
        (lambda: fd.stack([x, x], axis=1).shape, (2, 2, 3)),
        (lambda: fd.sort(x, axis=1).values, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        (lambda: x.gather(axis=1, index=fd.tensor([[0], [1]])), [[3.0], [5.0]]),
        (lambda: fd.zeros(2).softmax(axis=0), [0.5, 0.5]),
    ],
)
def test_axis_and_keepdims_are_taken_for_dim_and_keepdim(
    call: Callable[[], Any], expected: Any
) -> None:
    found = call()
    assert (found.tolist() if isinstance(found, fd.Tensor) else tuple(found)) == expected


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: x.mean(0, axis=1), "mean() got both 'dim' and 'axis'"),
        (lambda: fd.stack([x], dim=0, axis=1), "stack() got both 'dim' and 'axis'"),
        (x.softmax, "softmax() missing 1 required positional argument: 'dim'"),
        (
            x.gather,
            "gather() missing 2 required positional arguments: 'dim' and 'index'",
        ),
        (lambda: x.cumsum(0, axes=1), "cumsum() got an unexpected keyword argument 'axes'"),
        (lambda: fd.stack([x], axes=1), "stack() got an unexpected keyword argument 'axes'"),
    ],
)
def test_an_argument_given_twice_or_not_at_all_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_what_is_listed_may_come_by_name() -> None:
    assert fd.zeros(size=(2, 3)).shape == fd.ones(size=(2, 3)).shape == (2, 3)
    assert fd.rand(size=(2,)).shape == (2,)
    assert x.permute(dims=(1, 0)).shape == x.reshape(shape=(3, 2)).shape == (3, 2)
    assert fd.reshape(input=x, shape=(6,)).shape == (6,)
    assert x.repeat(repeats=(1, 2)).shape == x.tile(dims=(1, 2)).shape == (2, 6)
    assert fd.arange(end=3).tolist() == [0, 1, 2]
    assert fd.arange(start=1, end=3).tolist() == [1, 2]


def test_numbers_have_names() -> None:
    assert (fd.pi, fd.e, fd.inf, fd.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(fd.nan)


def test_in_place_functions_change_their_argument() -> None:
    y = fd.tensor([-1.0, 4.0])
    assert fd.relu_(y) is y and fd.sqrt_(y) is y
    assert y.tolist() == [0.0, 2.0]


def test_shapes_meet_without_tensors() -> None:
    assert fd.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    with pytest.raises(RuntimeError, match="broadcast_shapes was given shapes"):
        fd.broadcast_shapes((2,), (3,))


def test_old_constructors_make_their_dtype() -> None:
    assert fd.FloatTensor([1, 2]).dtype is fd.float32
    assert fd.LongTensor(2, 3).shape == (2, 3) and fd.BoolTensor().shape == (0,)
    assert isinstance(fd.LongTensor([1]), fd.LongTensor)
    assert not isinstance(x, fd.LongTensor) and not isinstance(3, fd.FloatTensor)


def test_type_is_a_name_or_a_cast() -> None:
    assert x.type() == "fastdist.FloatTensor"
    assert fd.ones(2, dtype=fd.bool).type() == "fastdist.BoolTensor"
    assert x.type(fd.float32) is x and x.type(fd.int32).dtype is fd.int32
    assert x.type("torch.DoubleTensor").dtype is fd.float64
    with pytest.raises(ValueError, match="invalid type: 'torch"):
        x.type("torch.FooTensor")


def test_limits_of_dtypes() -> None:
    assert fd.finfo(fd.float32).max == 3.4028234663852886e38
    assert fd.finfo(fd.float16).tiny == 6.103515625e-05
    assert fd.finfo().dtype == "float32"
    assert (fd.finfo(fd.complex128).dtype, fd.finfo(fd.complex64).bits) == ("float64", 32)
    assert (fd.iinfo(fd.uint8).min, fd.iinfo(fd.int64).bits) == (0, 64)
    assert str(fd.finfo(fd.float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, "
        "smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)"
    )
    assert str(fd.iinfo(fd.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    with pytest.raises(TypeError, match="requires a floating point input type"):
        fd.finfo(fd.int32)
    with pytest.raises(TypeError, match="requires an integer input type"):
        fd.iinfo(fd.float32)


def test_numpy_functions_of_tensors_return_tensors() -> None:
    found: Any = np.sqrt(fd.tensor([4.0, 9.0]))  # type: ignore[call-overload]
    assert isinstance(found, fd.Tensor) and found.tolist() == [2.0, 3.0]
    assert np.add(np.ones(2), fd.ones(2)).dtype is fd.float64  # type: ignore[call-overload]
    found = np.sqrt(fd.tensor(4.0))  # type: ignore[call-overload]
    assert isinstance(found, fd.Tensor) and found.shape == ()


def test_elements_cannot_be_deleted() -> None:
    y = fd.arange(3)
    with pytest.raises(TypeError, match="Tensor does not support deleting items"):
        del y[0]


def test_rows_are_views_that_share_a_node() -> None:
    w = fd.zeros(2, 3, requires_grad=True)
    a, b = w
    assert a.grad_fn is b.grad_fn and a.grad_fn.name() == "UnbindBackward0"
    (a * 2 + b).sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(fd.tensor(1))


def test_storage_offset_counts_elements_from_the_memory_s_start() -> None:
    y = fd.zeros(4, 5)
    assert (y.storage_offset(), y[1:, 2:].storage_offset(), y.t()[3].storage_offset()) == (0, 7, 3)
    assert y[1:].detach().storage_offset() == 5


def test_the_random_stream_can_be_put_back() -> None:
    state = fd.get_rng_state()
    first = fd.rand(3)
    fd.set_rng_state(state)
    assert fd.rand(3).tolist() == first.tolist()


NODES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x[0], "SelectBackward0"),
    (lambda x: x[0:1], "SliceBackward0"),
    (lambda x: x[:, 1], "SelectBackward0"),
    (lambda x: x[None], "UnsqueezeBackward0"),
    (lambda x: x[...], "AliasBackward0"),
    (lambda x: x.select(0, 0), "SelectBackward0"),
    (lambda x: x.narrow(0, 0, 1), "SliceBackward0"),
    (lambda x: x[:, fd.tensor([0])], "IndexBackward0"),
    (lambda x: x.index_select(0, fd.tensor([0])), "IndexSelectBackward0"),
    (lambda x: x.max(), "MaxBackward1"),
    (lambda x: x.max(0)[0], "MaxBackward0"),
    (lambda x: x.std(), "StdBackward0"),
    (lambda x: x.double(), "ToCopyBackward0"),
    (lambda x: x.t().contiguous(), "CloneBackward0"),
    (lambda x: x.clamp(0, 1), "ClampBackward1"),
    (F.gelu, "GeluBackward0"),
    (lambda x: F.linear(x, x, x[0]), "AddmmBackward0"),
    (lambda x: F.cross_entropy(x, fd.tensor([0, 1])), "NllLossBackward0"),
    (lambda x: F.mse_loss(x, x.detach(), reduction="none"), "MseLossBackward0"),
]


@pytest.mark.parametrize(("make", "name"), NODES)
def test_grad_fn_shows_pytorch_s_names(make: Callable[[Any], Any], name: str) -> None:
    for _ in range(2):
        result = make(fd.ones(2, 2, requires_grad=True))
        assert result.grad_fn.name() == name
        assert f"grad_fn=<{name}>" in repr(result)


@pytest.mark.parametrize("module", [fd, F, fd.autograd, fd.cuda])
def test_public_functions_are_pickled_by_their_names(
    module: types.ModuleType, properties: Properties
) -> None:
    found = {name: getattr(module, name) for name in dir(module)}
    functions = {k: one for k, one in found.items() if isinstance(one, types.FunctionType)}
    assert functions
    for name, function in functions.items():
        with properties(name):
            assert pickle.loads(pickle.dumps(function)) is function


def test_activations_in_place_are_functions_of_fastdist_too() -> None:
    x = fd.tensor([-1.0, 2.0])
    assert fd.threshold_(x, 0.0, 5.0) is x and x.tolist() == [5.0, 2.0]
    for name in ("celu_", "selu_", "rrelu_"):
        x = fd.tensor([-1.0, 2.0])
        expected = getattr(fd.nn.functional, name[:-1])(x)
        assert getattr(fd, name)(x) is x and x.equal(expected)
