"""Complex functions: NumPy's values, and derivatives checked by differences of both parts."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(7)
ARRAYS = [RNG.standard_normal((2, 3)) + 1j * RNG.standard_normal((2, 3)) for _ in range(3)]
REAL = RNG.standard_normal((2, 3))

# Functions of one number: the name of the method, and NumPy's function.
UNARY: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("reciprocal", "square", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10"),
            *("log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "conj", "angle", "abs"),
        )
    },
    **{
        name: getattr(np, f"arc{name[1:]}")
        for name in ("asin", "acos", "atan", "acosh", "asinh", "atanh")
    },
    "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sgn": lambda x: x / np.abs(x),
}
# Functions of complex x, y, z and real r, which accept tensors and NumPy arrays.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y, z, r: x + y,
    "difference": lambda x, y, z, r: x - y,
    "product": lambda x, y, z, r: x * y * z,
    "quotient": lambda x, y, z, r: x / y,
    "power": lambda x, y, z, r: x**3 + x**-1 - y**2.5,
    "real beside complex": lambda x, y, z, r: r * x + y / r - r,
    "numbers": lambda x, y, z, r: (3 - 1j) * x + x / 2j - 1j + 2.5 * y,
    "real part": lambda x, y, z, r: x.real * y,
    "imaginary part": lambda x, y, z, r: x.imag + y.imag * r,
    "holomorphic chain": lambda x, y, z, r: ((x * y) ** 2 + z).conj() * x,
    "size of a product": lambda x, y, z, r: abs(x * y) ** 2,
    "along an axis": lambda x, y, z, r: x.sum(0) * y.mean(1)[:1],
    "product of matrices": lambda x, y, z, r: x @ y.T @ z + (r * x) @ y.conj().T @ x,
    "a quotient added": lambda x, y, z, r: (
        x.addcdiv(y, z, value=0.5) if isinstance(x, fd.Tensor) else x + 0.5 * y / z
    ),
    "products of elements": lambda x, y, z, r: x.prod(0) * y.prod() - z.prod(1)[:1],
    "running product": lambda x, y, z, r: x.cumprod(1) * y.cumprod(0),
    "running sum": lambda x, y, z, r: x.cumsum(1) * y.cumsum(0),
    "views": lambda x, y, z, r: x[:, 1:] * y.T[:2].T * z.reshape(3, 2).T[:, :2],
}


def tensors(requires_grad: bool = False) -> list[fd.Tensor]:
    return [fd.tensor(a, requires_grad=requires_grad) for a in (*ARRAYS, REAL)]


@pytest.mark.parametrize("name", UNARY)
def test_a_value_is_numpy_s(name: str) -> None:
    found = getattr(fd.tensor(ARRAYS[0]), name)().resolve_conj()
    expected = UNARY[name](ARRAYS[0])
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", UNARY)
def test_derivatives_are_those_of_differences(name: str) -> None:
    x = fd.tensor(ARRAYS[1], requires_grad=True)
    assert gradcheck(lambda x: getattr(x, name)(), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: getattr(x, name)(), (x,))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_numpy_s_with_derivatives_of_differences(name: str) -> None:
    found = PROGRAMS[name](*tensors())
    np.testing.assert_allclose(found.numpy(), PROGRAMS[name](*ARRAYS, REAL), rtol=1e-12)
    assert gradcheck(PROGRAMS[name], tensors(True), check_forward_ad=True)
    assert gradgradcheck(PROGRAMS[name], tensors(True))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "move",
    [
        lambda x, y: x.flip(0).roll(1, 1).tril(), lambda x, y: fd.cat([x, y]).unique_consecutive(),
        lambda x, y: fd.where(fd.tensor(REAL) > 0, x, y), lambda x, y: x[fd.tensor(REAL) > 0],
        lambda x, y: x.gather(1, fd.tensor([[0], [2]])), lambda x, y: x.masked_fill(y == y, 2j),
        lambda x, y: x.index_select(0, fd.tensor([1, 0, 1])), lambda x, y: x.expand(4, 2, 3).sum(0),
    ],
)  # fmt: skip
def test_gradients_go_back_to_where_elements_came_from(move: Callable[..., Any]) -> None:
    x, y, _, _ = tensors(True)
    assert gradcheck(move, (x, y), check_forward_ad=True)


def test_gradients_of_many_elements_are_those_of_few() -> None:
    x = fd.complex(fd.randn(9000), fd.randn(9000)).requires_grad_()
    places = fd.arange(9000).flip(0)
    (x.index_select(0, places) * x.exp()).abs().sum().backward()
    first = x.detach()[:5].clone().requires_grad_()
    last = x.detach()[-5:].clone().requires_grad_()
    both = (first.exp() * last.flip(0)).abs().sum() + (last.exp() * first.flip(0)).abs().sum()
    both.backward()
    assert x.grad is not None and first.grad is not None
    np.testing.assert_allclose(x.grad[:5].numpy(), first.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_real_operand_has_a_real_gradient() -> None:
    r = fd.tensor([1.0, 2.0], requires_grad=True)
    (r * fd.tensor([1 + 2j, 3j])).real.sum().backward()
    assert r.grad is not None and r.grad.dtype is fd.float32 and r.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", ["abs", "angle", "sgn"])
def test_gradients_at_0_are_0(name: str) -> None:
    x = fd.zeros(2, dtype=fd.complex64, requires_grad=True)
    found = getattr(x, name)()
    assert found.abs().sum() == 0
    found.backward(fd.ones_like(found))
    assert x.grad is not None and x.grad.tolist() == [0, 0]


def test_parts_are_views() -> None:
    x = fd.tensor([1 + 2j, 3 - 4j])
    x.real[0], x.imag[1] = 7.0, 9.0
    fd.view_as_real(x)[0, 1] = -1.0
    assert x.tolist() == [7 - 1j, 3 + 9j]
    pairs = fd.zeros(2, 2)
    fd.view_as_complex(pairs)[1] = 5 + 6j
    assert pairs.tolist() == [[0.0, 0.0], [5.0, 6.0]]
    assert pairs.select(-1, 0).dtype is fd.float32  # a view with gaps, like the real part


def test_complex_numbers_are_made_of_parts() -> None:
    assert fd.complex(fd.tensor([1.0, 2.0]), fd.tensor(3.0)).tolist() == [1 + 3j, 2 + 3j]
    found = fd.polar(fd.tensor([2.0], dtype=fd.float64), fd.tensor([np.pi / 2]).double())
    assert found.dtype is fd.complex128 and abs(found.item() - 2j) < 1e-6
    for made in (fd.complex, fd.polar):
        with pytest.raises(RuntimeError, match="Expected both inputs to be Half, Float or Double"):
            made(fd.tensor([1]), fd.tensor([2]))
        with pytest.raises(RuntimeError, match="scalar type Float but got scalar type Double"):
            made(fd.ones(1), fd.ones(1, dtype=fd.float64))


def test_numbers_become_complex_tensors_and_come_back() -> None:
    assert (
        fd.tensor([1j, 2]).dtype is fd.tensor(1j).dtype is fd.full((2,), 1j).dtype is fd.complex64
    )
    assert fd.zeros(2, dtype=complex).dtype is fd.complex128
    assert (fd.ones(2, dtype=fd.float64) * 1j).dtype is fd.complex128
    assert complex(fd.tensor(1 + 2j)) == fd.tensor(1 + 2j).item() == 1 + 2j
    x = fd.tensor(ARRAYS[0])
    assert fd.equal(pickle.loads(pickle.dumps(x)), x)
    stream = io.BytesIO()
    fd.save(x, stream)
    stream.seek(0)
    assert fd.equal(fd.load(stream), x)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert x.float().dtype is fd.float32
    for wrong in (lambda: fd.ones(2).add_(1j), lambda: fd.ones(2).fill_(1j)):
        with pytest.raises(RuntimeError, match=r"can't be cast|cannot be converted"):
            wrong()


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        (1.5 + 2j, "tensor(1.5000+2.j)"),
        ([1 + 2j, 3 - 4j], "tensor([1.+2.j, 3.-4.j])"),
        ([1.0, -2 - 0.0j], "tensor([ 1.+0.j, -2.+0.j])"),
        ([1 + 0.5j, 20], "tensor([ 1.+0.5000j, 20.+0.0000j])"),
        ([1.12345678 - 2.123456j, 10.5 + 100.25j], "tensor([ 1.1235-2.1235j, 10.5000+100.2500j])"),
        ([complex("nan"), complex("inf"), 1 - 1j], "tensor([nan+0.j, inf+0.j, 1.-1.j])"),
        ([], "tensor([], dtype=fastdist.complex64)"),
    ],
)
def test_complex_numbers_are_printed_as_pytorch_prints_them(numbers: Any, shown: str) -> None:
    assert repr(fd.tensor(numbers, dtype=fd.complex64)) == shown
    assert repr(fd.tensor([1j]).to(fd.complex128)) == "tensor([0.+1.j], dtype=fastdist.complex128)"


REFUSED: list[Callable[[Any], Any]] = [
    lambda x: x > x, lambda x: x.max(), lambda x: x.sort(), lambda x: x.floor(), lambda x: x.erf(),
    lambda x: x.clamp(0, 1), lambda x: x % 2, lambda x: x // 2, lambda x: x.round(),
    lambda x: x.sign(), lambda x: x.softmax(0), lambda x: x.aminmax(), lambda x: x.argmax(),
    lambda x: x.clone().abs_(), lambda x: x.median(), lambda x: x.atan2(x),
    lambda x: fd.nn.functional.mse_loss(x, x), fd.nn.functional.relu,
    fd.nn.functional.gelu,
    lambda x: fd.searchsorted(x.flatten(), x),
    lambda x: x.histc(),
    lambda x: x.quantile(0.5),
]  # fmt: skip


@pytest.mark.parametrize("which", range(len(REFUSED)))
def test_what_does_not_take_complex_numbers_says_so(which: int) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)complex"):
        REFUSED[which](fd.tensor(ARRAYS[0], requires_grad=which % 2 == 0))


def test_the_first_vector_of_vdot_is_conjugated() -> None:
    x, y = fd.tensor([1j, 2.0]), fd.tensor([3.0, 1j])
    assert fd.vdot(x, y).item() == np.vdot([1j, 2.0], [3.0, 1j])
    assert fd.dot(x, y).item() == np.dot([1j, 2.0], [3.0, 1j])


def test_backward_starts_from_a_real_number_alone() -> None:
    x = fd.tensor([1j], requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"only for real scalar outputs but got fastdist\.complex"
    ):
        x.sum().backward()


@pytest.mark.parametrize("exponent", [2, 0.5, 1.5, -1, 2j])
def test_powers_of_many_complex_numbers_are_those_of_few(exponent: complex) -> None:
    z = np.tile(ARRAYS[0].ravel(), 5000)
    found = (fd.tensor(z) ** exponent).numpy()
    np.testing.assert_allclose(found, z**exponent, rtol=1e-12)


def test_both_parts_of_complex_numbers_are_drawn() -> None:
    source = fd.Generator().manual_seed(5)
    normal = fd.randn(200, 100, dtype=fd.complex64, generator=source)
    even = fd.rand(200, 100, dtype=fd.complex128, generator=source)
    assert (normal.dtype, even.dtype) == (fd.complex64, fd.complex128)
    for part in (normal.real, normal.imag):
        assert abs(part.mean()) < 0.02 and abs(part.var() - 0.5) < 0.02
    for part in (even.real, even.imag):
        assert part.min() >= 0 and part.max() < 1 and abs(part.mean() - 0.5) < 0.01
    assert abs((normal.real * normal.imag).mean()) < 0.02
    alike = fd.randn_like(normal.T)
    assert alike.dtype is fd.complex64 and alike.stride() == normal.T.stride()
    again = fd.randn(200, 100, dtype=fd.complex64, generator=source.manual_seed(5))
    assert fd.equal(again, normal) and fd.randn(0, dtype=fd.complex64).shape == (0,)


def test_a_complex_power_is_differentiated_twice_by_its_exponent() -> None:
    given = [fd.tensor(array, requires_grad=True) for array in ARRAYS[:2]]
    assert gradgradcheck(fd.pow, given)
    zero = fd.tensor([0j, 0j], requires_grad=True)
    power = fd.tensor([2 + 0j, 2j], requires_grad=True)
    (slope,) = fd.autograd.grad((zero**power).abs().sum(), power, create_graph=True)
    assert slope.requires_grad and slope[0].item() == 0


def test_a_product_with_a_zero_has_the_gradient_of_the_others() -> None:
    z = fd.tensor([1 + 1j, 0, 2j], requires_grad=True)
    z.prod().real.backward()
    assert z.grad.tolist() == [0, np.conj((1 + 1j) * 2j), 0]


def test_parameters_and_fills_draw_both_parts() -> None:
    fd.manual_seed(3)
    x = fd.empty(20_000, dtype=fd.complex64)
    even = x.uniform_(-1, 3).clone()
    assert abs(even.real.mean() - 1) < 0.05 and abs(even.imag.mean() - 1) < 0.05
    normal = x.normal_(0, 2)
    assert abs(normal.real.var() - 2) < 0.1 and abs(normal.imag.var() - 2) < 0.1
    for init in (fd.nn.init.normal_, fd.nn.init.uniform_):
        assert init(fd.empty(50, dtype=fd.complex128)).imag.abs().min() > 0
    assert fd.nn.Linear(3, 2, dtype=fd.complex64).weight.imag.abs().min() > 0
