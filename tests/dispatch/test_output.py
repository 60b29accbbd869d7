"""`out=` with another shape, another dtype, or the memory of operands."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import forward_ad
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.dispatch.structured import StructuredOp
from fastdist.nn import functional as F
from tests.dispatch.paths import general_calls

WARNING = (
    r"An output with one or more elements was resized since it had shape \[2\], which does not "
    r"match the required output shape \[3\]"
)


def test_an_out_of_another_shape_is_resized_with_a_warning() -> None:
    out = fd.zeros(2)
    with pytest.warns(UserWarning, match=WARNING):
        found = fd.add(fd.ones(3), 1, out=out)
    assert found is out and out.tolist() == [2.0, 2.0, 2.0]
    with pytest.warns(UserWarning, match="was resized"):
        fd.cat([fd.ones(1)], out=out)
    assert out.tolist() == [1.0]


def test_an_out_without_elements_is_resized_without_a_word() -> None:
    assert fd.sum(fd.ones(2, 3), 0, out=fd.zeros(0)).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("which", [lambda x: x[:2], lambda x: x])
def test_an_out_that_views_know_keeps_its_shape(which: Any) -> None:
    x = fd.zeros(4)
    view = x[1:]
    with pytest.raises(RuntimeError, match="out has shape"):
        fd.add(fd.ones(3), 1, out=which(x))
    assert view.shape == (3,)


def test_an_out_that_cannot_hold_the_dtype_keeps_its_shape() -> None:
    out = fd.zeros(2, dtype=fd.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        fd.add(fd.ones(3), 1, out=out)
    assert out.shape == (2,)


def test_an_out_over_part_of_what_is_read_is_refused() -> None:
    x = fd.ones(6)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        fd.exp(x[:-1], out=x[1:])
    assert fd.exp(x, out=x) is x


def test_an_out_that_fits_is_filled_at_once() -> None:
    x, out = fd.ones(1 << 20), fd.empty(1 << 20)
    fd.add(x, x)  # loads or compiles the kernel
    version = out._version
    tracemalloc.start()
    try:
        fd.add(x, x, out=out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < out.nbytes / 2  # no temporary array of the size of `out`
    assert out._version == version + 1 and bool((out == 2).all())


@pytest.mark.parametrize(
    "strange",
    [
        lambda: fd.empty(64, 64).t(),
        lambda: fd.empty(64, 128)[:, ::2],
        lambda: fd.empty(64, 64, dtype=fd.float64),
    ],
)
def test_an_out_of_other_strides_or_dtype_holds_the_same(strange: Any) -> None:
    x, out = fd.rand(64, 64), strange()
    assert fd.mul(x, x.t(), out=out) is out
    assert bool((out == x * x.t()).all())


def test_an_out_with_gaps_over_what_is_read_holds_what_was_read() -> None:
    base = fd.arange(10.0)
    fd.neg(base[:-2:2], out=base[2::2])
    assert base[2::2].tolist() == [0.0, -2.0, -4.0, -6.0]


def test_an_out_that_fits_but_has_a_gradient_is_refused_untouched() -> None:
    out = fd.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fd.exp(fd.ones(3), out=out)
    assert out.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["abs", "ceil", "floor", "neg", "sign", "trunc", "bitwise_not"])
def test_what_keeps_the_dtype_takes_no_other_as_out(name: str) -> None:
    integers = fd.tensor([1, 2])
    getattr(fd, name)(integers, out=fd.empty(2, dtype=fd.int64))
    with pytest.raises(RuntimeError, match="Found dtype float32 but expected int64"):
        getattr(fd, name)(integers, out=fd.empty(2))


@pytest.mark.parametrize(
    "write",
    [
        lambda wrong: fd.argmax(fd.arange(300.0), out=wrong),
        lambda wrong: fd.topk(fd.arange(300.0), 2, out=(fd.empty(0), wrong)),
        lambda wrong: fd.max(fd.ones(2, 2), 1, out=(fd.empty(0), wrong)),
        lambda wrong: fd.sort(fd.ones(3), out=(fd.empty(0), wrong)),
    ],
)
def test_an_out_for_places_is_of_their_dtype(write: Any) -> None:
    for dtype in (fd.uint8, fd.float16, fd.float32):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype int64, but got"):
            write(fd.empty(0, dtype=dtype))
    write(fd.empty(0, dtype=fd.int64))


def test_what_no_op_takes_is_named_in_place_too() -> None:
    with pytest.raises(
        TypeError, match=r"add_\(\): argument types \(Tensor, str\) .* expected Tensors"
    ):
        fd.ones(2).add_("a")  # type: ignore[arg-type]


_WRITING: dict[str, Any] = {
    "add": lambda x, y, out: fd.add(x, y, out=out),
    "add(alpha)": lambda x, y, out: fd.add(x, y, alpha=0.5, out=out),
    "mul(number)": lambda x, y, out: fd.mul(x, 2.0, out=out),
    "exp": lambda x, y, out: fd.exp(x, out=out),
    "over itself": lambda x, y, out: fd.sub(out, y, out=out),
    "row": lambda x, y, out: fd.add(x, y[0], out=out),
    "matmul": lambda x, y, out: fd.matmul(x, y, out=out),
    "matmul over itself": lambda x, y, out: fd.matmul(out, y, out=out),
    "cumsum": lambda x, y, out: fd.cumsum(x, 1, out=out),
}


@pytest.mark.parametrize("name", _WRITING)
def test_a_later_out_goes_the_short_way_and_holds_the_same(name: str) -> None:
    x, y = fd.arange(9.0).reshape(3, 3), fd.arange(1.0, 10.0).reshape(3, 3)
    write, expected = _WRITING[name], fd.ones(3, 3)
    write(x, y, expected)
    for _ in range(3):
        write(x, y, fd.ones(3, 3))
    out = fd.ones(3, 3)
    before = out._version
    with general_calls(PointwiseOp, StructuredOp) as went:
        assert write(x, y, out) is out
    assert went == [] and out._version == before + 1
    assert out.tolist() == expected.tolist()


def test_a_later_out_is_looked_at_each_time() -> None:
    x, y = fd.ones(3), fd.ones(3)
    for _ in range(3):
        fd.add(x, y, out=fd.zeros(3))
    shared = fd.zeros(5)
    with pytest.raises(RuntimeError, match="single memory location"):
        fd.add(shared[:3], y, out=shared[1:4])
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fd.add(x, y, out=fd.zeros(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fd.add(x.clone().requires_grad_(), y, out=fd.zeros(3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        fd.add(x, y, out=fd.zeros(3, dtype=fd.int64))
    with pytest.raises(TypeError, match="'out' must be a Tensor"):
        fd.add(x, y, out="z")
    wide = fd.zeros(3, dtype=fd.float64)
    assert fd.add(x, y, out=wide) is wide and wide.tolist() == [2.0] * 3
    assert fd.add(x, fd.ones(2, 3), out=fd.zeros(0)).shape == (2, 3)


OF_EVERY_KIND = {
    "mul": lambda x, out: fd.mul(x, x, out=out),
    "mul by a number": lambda x, out: fd.mul(x, 2, out=out),
    "eq": lambda x, out: fd.eq(x, 2, out=out),
    "sum": lambda x, out: fd.sum(x, 0, out=out),
    "matmul": lambda x, out: fd.matmul(x, x, out=out),
    "matmul of a vector": lambda x, out: fd.matmul(x, x[0], out=out),
    "mm": lambda x, out: fd.mm(fd.eye(2), x, out=out),
    "where": lambda x, out: fd.where(x > 1, fd.zeros(2, 2), x, out=out),
    "clamp": lambda x, out: fd.clamp(x, 0, 1, out=out),
    "cat": lambda x, out: fd.cat([fd.eye(2), x], out=out),
    "stack": lambda x, out: fd.stack([fd.eye(2), x], out=out),
    "scatter": lambda x, out: fd.scatter(
        fd.zeros(2, 2), 0, fd.zeros(2, 2, dtype=fd.int64), x, out=out
    ),
    "sort": lambda x, out: fd.sort(x, out=(out, fd.empty(0, dtype=fd.int64))),
    "transpose_copy": lambda x, out: fd.transpose_copy(x, 0, 1, out=out),
    "inv": lambda x, out: fd.linalg.inv(x, out=out),
    "norm": lambda x, out: fd.linalg.norm(x, out=out),
}
HAS_TANGENT = "Trying to use forward AD with .*because it is an out= function: {} has a tangent"


@pytest.mark.parametrize("call", OF_EVERY_KIND.values(), ids=OF_EVERY_KIND)
def test_an_out_of_what_has_a_tangent_is_refused(call: Any) -> None:
    plain, out = fd.eye(2) * 2, fd.empty(0)
    # The first calls make short paths. A later call with a tangent must not take them.
    for _ in range(2):
        call(plain, fd.empty(0))
    with pytest.raises(NotImplementedError, match=HAS_TANGENT.format("an operand")):
        fd.func.jvp(lambda x: call(x, out), (plain,), (fd.ones(2, 2),))
    with pytest.raises(NotImplementedError, match=HAS_TANGENT.format("an operand")):
        fd.func.jacfwd(lambda x: call(x, out))(plain)
    with fd.no_grad(), pytest.raises(NotImplementedError, match=HAS_TANGENT.format("an operand")):
        fd.func.jvp(lambda x: call(x, out), (plain,), (fd.ones(2, 2),))
    assert out.shape == (0,)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fd.zeros(0), fd.zeros(0))
        with pytest.raises(NotImplementedError, match=HAS_TANGENT.format("out")):
            call(plain, dual)
        primal = forward_ad.unpack_dual(forward_ad.make_dual(plain, plain)).primal
        call(primal, out)
    assert out.numel() > 0


def test_an_out_whose_base_has_a_tangent_is_refused_untouched() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fd.zeros(4), fd.ones(4))
        with pytest.raises(NotImplementedError, match=HAS_TANGENT.format("out")):
            fd.exp(fd.ones(2), out=dual[:2])
        assert dual.tolist() == [0.0] * 4 and dual._version == 0
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [1.0] * 4


OF_SEVERAL_PLACES = {
    "add": lambda x, out: fd.add(x, 1, out=out),
    "sum": lambda x, out: fd.sum(x, 0, out=out),
    "matmul": lambda x, out: fd.matmul(x, x, out=out),
    "cat": lambda x, out: fd.cat([x, x], out=out),
    "linalg.inv": lambda x, out: fd.linalg.inv(x, out=out),
}


@pytest.mark.parametrize(("where", "other"), [("sim:0", "cpu"), ("cpu", "sim:0")])
@pytest.mark.parametrize("name", OF_SEVERAL_PLACES)
def test_an_out_on_another_device_is_refused_in_words(name: str, where: str, other: str) -> None:
    call, x = OF_SEVERAL_PLACES[name], fd.eye(2, device=where)
    fits = call(x, fd.empty(0, device=where))
    out = fd.full(fits.shape, 7.0, device=other)
    text = f"{name} gives its result on {where}, out is on {other}; give an out on {where}, or move"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"at least two devices: {text}"):
            call(x, out)
        call(x, fits)  # a valid call, so that the short path is cached
    assert bool((out.cpu() == 7).all())


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [fd.float16, fd.float32, fd.float64])
def test_softmax_writes_into_an_out_of_its_dtype(name: str, dtype: Any) -> None:
    function, x = getattr(fd, name), fd.randn(3, 5).to(dtype)
    expected = function(x, 1)
    for _ in range(2):
        out = fd.empty(5, 3, dtype=dtype).T
        assert function(x, 1, out=out) is out
        assert out.tolist() == expected.tolist()
        assert function(x, 1, out=fd.empty(0, dtype=dtype)).tolist() == expected.tolist()
        wide = fd.empty(3, 5, dtype=fd.float64)
        assert function(x, 1, dtype=fd.float64, out=wide) is wide
        other = fd.float32 if dtype is fd.float64 else fd.float64
        with pytest.raises(RuntimeError, match=f"Expected out tensor to have dtype {dtype.name}"):
            function(x, 1, out=fd.empty(3, 5, dtype=other))
    function(x, 1, out=x)
    assert x.tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        function(x.requires_grad_(), 1, out=fd.empty(3, 5, dtype=dtype))


CAST = {
    "add": lambda x, out: fd.add(x, 1, out=out),
    "sum": lambda x, out: fd.sum(x, 0, out=out),
    "cat": lambda x, out: fd.cat([x, x], out=out),
    "max of all": lambda x, out: fd.max(x, out=out),
    "std": lambda x, out: fd.std(x, out=out),
    "abs of complex": lambda x, out: fd.abs(x.to(fd.complex64), out=out),
    "cholesky": lambda x, out: fd.cholesky(x.T @ x + fd.eye(2), out=out),
}
NOT_CAST = {
    "matmul": lambda x, out: fd.matmul(x, x.T, out=out),
    "addmm": lambda x, out: fd.addmm(x, fd.eye(3), x, out=out),
    "linear": lambda x, out: F.linear(x, x, out=out),
    "sort": lambda x, out: fd.sort(x, out=(out, fd.empty(0, dtype=fd.int64))),
    "max along an axis": lambda x, out: fd.max(x, 0, out=(out, fd.empty(0, dtype=fd.int64))),
    "where": lambda x, out: fd.where(x > 1, x, x, out=out),
    "tril": lambda x, out: fd.tril(x, out=out),
    "scatter_add": lambda x, out: fd.scatter_add(x, 0, fd.zeros(1, 1).long(), x, out=out),
    "solve": lambda x, out: fd.linalg.solve(fd.eye(3), x, out=out),
}


@pytest.mark.parametrize("name", [*CAST, *NOT_CAST])
def test_an_out_of_a_wider_dtype_is_written_where_pytorch_casts(name: str) -> None:
    """See Note [Casting into out] in dispatch/target.py."""
    call = CAST.get(name) or NOT_CAST[name]
    x, wide, same = fd.randn(3, 2), fd.empty(0, dtype=fd.float64), fd.empty(0)
    call(x, same)
    if name in CAST:
        call(x, wide)
        assert wide.float().tolist() == same.tolist()
    else:
        with pytest.raises(RuntimeError, match=r"dtype float32, but got float64|expected float32"):
            call(x, wide)


def test_whether_all_or_any_is_written_into_bool_or_uint8() -> None:
    for x in (fd.tensor([0, 2], dtype=fd.uint8), fd.tensor([0.0, 2.0])):
        for dtype in (fd.bool, fd.uint8):
            out = fd.empty((), dtype=dtype)
            assert fd.any(x, out=out).item() == 1 and fd.all(x, out=out).item() == 0
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            fd.all(x, out=fd.empty(()))


def test_float_power_writes_into_its_own_dtype_alone() -> None:
    x = fd.ones(2, dtype=fd.complex128)
    assert x.float_power_(2).tolist() == [1, 1]
    for call in (
        lambda: fd.ones(2).float_power_(2),
        lambda: fd.ones(2).double().float_power_(2j),
        lambda: fd.float_power(fd.ones(2), 2, out=fd.empty(2, dtype=fd.complex128)),
    ):
        with pytest.raises(RuntimeError, match="but the operation's result requires dtype"):
            call()


REFUSED_SECOND: dict[str, Callable[[], Any]] = {
    "a number": lambda: 3,
    "another dtype": lambda: fd.zeros(3, dtype=fd.int32),
    "another device": lambda: fd.zeros(3, dtype=fd.int64, device="sim"),
    "places of one another": lambda: fd.zeros(1, dtype=fd.int64).expand(3),
    "a view of another shape": lambda: fd.zeros(5, dtype=fd.int64)[:4],
}


@pytest.mark.parametrize("name", REFUSED_SECOND)
def test_nothing_is_written_where_a_later_out_is_refused(name: str) -> None:
    values = fd.zeros(3)
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        fd.sort(fd.tensor([3.0, 1.0, 2.0]), out=(values, REFUSED_SECOND[name]()))
    assert values.tolist() == [0, 0, 0]
