"""Compiled loops read the memory of real arrays only, and reject any other object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.kernels.cpu.jit.array_objects import require_arrays
from fastdist.kernels.cpu.linalg import product
from fastdist.kernels.cpu.rows import long_rows

N = 20_000
PRETENDERS = (
    1.5,
    7,
    "text",
    b"bytes",
    bytearray(64),
    [1.0],
    (1.0,),
    None,
    OrderedDict(),
    np.float32(1),
)


class Liar:
    """An object that has the attributes of an array but is none."""

    __class__ = np.ndarray  # type: ignore[assignment]
    shape, dtype, strides, ndim, size, itemsize = (4, 4), np.dtype("f4"), (16, 4), 2, 16, 4


CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda t: t.sum(),
    "softmax": lambda t: t.softmax(-1),
    "log_softmax": lambda t: t.log_softmax(-1),
    "norm": lambda t: t.norm(),
    "mean": lambda t: t.mean(),
    "var": lambda t: t.var(),
    "sigmoid": lambda t: t.sigmoid(),
    "exp": lambda t: t.exp(),
    "in place": lambda t: t.mul_(2),
    "out": lambda t: fd.exp(fd.ones(200, 100), out=t),
    "rms norm": lambda t: F.rms_norm(t, t.shape[-1:]),
    "layer norm": lambda t: F.layer_norm(t, t.shape[-1:]),
    "product": lambda t: t @ fd.ones(100, 64),
    "linear": lambda t: F.linear(fd.ones(300, 100), t),
    "cross entropy": lambda t: F.cross_entropy(t, fd.zeros(200, dtype=fd.int64)),
    "max_pool": lambda t: F.max_pool2d(t.reshape(1, 1, 200, 100), 2),
    "conv": lambda t: F.conv2d(t.reshape(1, 1, 200, 100), fd.ones(4, 1, 3, 3)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_not_an_array_is_never_read(call: Callable[[Any], Any]) -> None:
    call(fd.ones(200, 100))
    for pretender in PRETENDERS:
        forged = fd.ones(200, 100)
        forged._array = pretender
        with pytest.raises((TypeError, AttributeError, ValueError, RuntimeError, AssertionError)):
            call(forged)


def test_a_step_over_many_tensors_reads_arrays_alone() -> None:
    parameters = [fd.nn.Parameter(fd.ones(300)) for _ in range(4)]
    for one in parameters:
        one.grad = fd.ones(300)
    optimizer = fd.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)
    optimizer.step()
    for pretender in PRETENDERS:
        kept, parameters[2]._array = parameters[2]._array, pretender
        with pytest.raises((TypeError, AttributeError)):
            optimizer.step()
        parameters[2]._array = kept
    optimizer.step()


def test_arrays_of_derived_classes_are_arrays() -> None:
    class Derived(np.ndarray):
        pass

    require_arrays(np.ones(2), np.ones(2).view(Derived))
    seen = fd.ones(300)
    seen._array = seen._array.view(Derived)
    assert (seen * seen).sum().item() == 300
    parameter = fd.nn.Parameter(seen)
    parameter.grad = fd.ones(300)
    fd.optim.SGD([parameter], lr=1.0, momentum=0.9, foreach=True).step()
    assert parameter.tolist() == [0.0] * 300


@pytest.mark.parametrize("rows", [4, 4096])
def test_loops_on_several_threads_check_as_well(rows: int) -> None:
    class Derived(np.ndarray):
        pass

    x = np.ones((rows, 512), np.float32)
    before = fd.get_num_threads()
    fd.set_num_threads(2)
    try:
        run = long_rows.result_by("softmax", x.shape, x.dtype, rows, 512)
        assert (run(x) == 1 / 512).all() and (run(x.view(Derived)) == 1 / 512).all()
        for pretender in (*PRETENDERS, Liar()):
            with pytest.raises(TypeError, match="a compiled loop reads the memory"):
                run(pretender)  # type: ignore[arg-type]
    finally:
        fd.set_num_threads(before)


def test_an_object_that_lies_about_its_class_is_refused() -> None:
    liar: Any = Liar()
    assert isinstance(liar, np.ndarray)
    whole = np.ones((4, 4), np.float32)
    for call in (
        lambda: require_arrays(liar),
        lambda: long_rows.loop_of("softmax", whole.dtype)((liar, whole), 4, 4),
        lambda: product.multiply(liar, whole, whole),
        lambda: product.multiply_turned(whole, liar, whole),
        lambda: product.multiply_alone(whole, liar, whole),
    ):
        with pytest.raises(TypeError, match="was given a Liar"):
            call()
