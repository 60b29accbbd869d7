"""Dtypes without a kernel in PyTorch raise errors with its messages, not wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

INTEGERS = fd.tensor([3, 4])
BOOLS = fd.tensor([True, False])
FLOATS = fd.tensor([3.0, 4.0])


C_NAMES = {
    fd.float16: "c10::Half",
    fd.bfloat16: "c10::BFloat16",
    fd.complex64: "c10::complex<float>",
    fd.complex128: "c10::complex<double>",
    fd.uint8: "unsigned char",
    fd.uint16: "short unsigned int",
    fd.uint32: "unsigned int",
    fd.uint64: "long unsigned int",
}


def test_polygamma_of_a_negative_order_is_refused() -> None:
    for call in (fd.polygamma, fd.special.polygamma):
        for _ in range(2):
            assert call(1, FLOATS).isfinite().all()
            with pytest.raises(RuntimeError, match="does not support negative n, got n=-1"):
                call(-1, FLOATS)


@pytest.mark.parametrize("dtype", C_NAMES)
def test_lerp_names_every_dtype_that_differs(dtype: Any) -> None:
    text = f"expected dtype float for `end` but got dtype {C_NAMES[dtype]}: cast one of them"
    with pytest.raises(RuntimeError, match=text):
        FLOATS.clone().lerp_(FLOATS.to(dtype), 0.5)
    if dtype.is_floating_point:
        text = rf"expected dtype {C_NAMES[dtype]} for `end` but got dtype float: cast"
        with pytest.raises(RuntimeError, match=text):
            FLOATS.to(dtype).lerp(FLOATS, 0.5)


@pytest.mark.parametrize("dtype", C_NAMES)
def test_lerp_refuses_a_weight_with_axes_of_another_dtype(dtype: Any) -> None:
    weight = FLOATS.to(dtype)
    text = rf"expected dtype float for `weight` but got dtype {C_NAMES[dtype]}: cast one of them"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text):
            FLOATS.lerp(FLOATS, weight)
        with pytest.raises(RuntimeError, match=text):
            FLOATS.clone().lerp_(FLOATS, weight)
    if not dtype.is_complex:
        assert FLOATS.lerp(FLOATS, weight[0]).dtype is fd.float32


def test_lerp_meets_a_complex_weight_without_axes() -> None:
    weight = fd.tensor(1j)
    assert fd.lerp(FLOATS, 2 * FLOATS, weight).tolist() == [3 + 3j, 4 + 4j]
    with pytest.raises(RuntimeError, match="result type complex64 can't be cast to the desired"):
        FLOATS.clone().lerp_(FLOATS, weight)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without over"):
        FLOATS.lerp(FLOATS, 1j)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fd.lerp(FLOATS, FLOATS.double(), 0.5), "expected dtype float for `end` but got d"),
        (lambda: FLOATS.clone().lerp_(INTEGERS, 0.5), "expected dtype float for `end` but got dty"),
        (lambda: fd.lerp(INTEGERS, INTEGERS, 0.5), '"lerp_kernel_scalar" not implemented for \'L'),
        (lambda: fd.lerp(INTEGERS, INTEGERS, INTEGERS), '"lerp_kernel_tensor" not implemented for'),
        (lambda: fd.addcdiv(INTEGERS, INTEGERS, INTEGERS), "Integer division with addcdiv"),
        (lambda: fd.addcdiv(FLOATS, INTEGERS, BOOLS, value=2), "Integer division with addcdiv"),
        (lambda: INTEGERS.clone().addcdiv_(INTEGERS, INTEGERS), "Integer division with addcdiv"),
        (lambda: fd.addcmul(BOOLS, BOOLS, BOOLS), "\"addcmul_cpu_out\" not implemented for 'Bool'"),
        (lambda: fd.hypot(INTEGERS, INTEGERS), "\"hypot_cpu\" not implemented for 'Long'"),
        (lambda: fd.logaddexp(INTEGERS, BOOLS), "\"logaddexp_cpu\" not implemented for 'Long'"),
        (lambda: fd.logaddexp2(INTEGERS, INTEGERS), '"logaddexp2_cpu" not implemented for'),
        (lambda: fd.nextafter(INTEGERS, INTEGERS), '"nextafter_cpu" not implemented for'),
        (lambda: fd.heaviside(FLOATS, INTEGERS), "heaviside is not yet implemented for tensors"),
        (lambda: fd.nanmean(INTEGERS), r"nanmean\(\): expected input to have floating point"),
        (lambda: fd.nanmean(BOOLS, 0), r"nanmean\(\): expected input to have floating point"),
        (BOOLS.argmax, r"argmax\(\): does not support bool input"),
        (lambda: BOOLS.argmin(0), r"argmin\(\): does not support bool input"),
        (FLOATS.to(fd.complex64).sort, "\"sort\" not implemented for 'ComplexFloat'"),
        (lambda: FLOATS.to(fd.complex64).clamp(0), "\"clamp\" not implemented for 'ComplexFloat'"),
        (lambda: FLOATS.to(fd.complex64).cummax(0), '"cummax" not implemented for \'Complex'),
        (lambda: INTEGERS.add(INTEGERS, alpha=True), "Boolean alpha only supported for Boolean"),
        (
            lambda: INTEGERS.to(fd.uint8).add(INTEGERS.to(fd.uint8), alpha=300),
            "value cannot be converted to type uint8 without overflow",
        ),
    ],
)
def test_dtypes_without_a_kernel_in_pytorch_are_refused_in_its_words(
    call: Callable[[], Any], text: str
) -> None:
    for _ in range(2):  # a call that fails must not be cached as valid
        with pytest.raises(RuntimeError, match=text):
            call()


NUMBERLESS = [
    *("atan2", "hypot", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"),
    *("heaviside", "logical_and", "logical_or", "logical_xor", "gcd", "lcm", "nextafter"),
    *("dist", "igamma", "igammac", "inner"),
]
NO_NUMBER_FIRST = ["eq", "ne", "lt", "le", "gt", "ge", "fmod", "copysign", "rsub", "clamp_min"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("name", NUMBERLESS)
def test_a_number_in_the_place_of_a_tensor_is_refused(name: str, number: float) -> None:
    tensor = INTEGERS if name in ("gcd", "lcm") else FLOATS
    for _ in range(2):  # the first call may create a short path
        getattr(fd, name)(tensor, tensor)
        with pytest.raises(
            TypeError, match=rf"^{name}\(\): argument '\w+' \(position 2\) must be T"
        ):
            getattr(fd, name)(tensor, number)
        with pytest.raises(TypeError, match=rf"^{name}\(\): argument 'input' \(position 1\) must"):
            getattr(fd, name)(number, tensor)


@pytest.mark.parametrize("name", ["atan2", "hypot", "nextafter", "logical_and"])
def test_a_number_in_the_place_of_a_tensor_is_refused_in_place(name: str) -> None:
    x = FLOATS.clone()
    getattr(x, f"{name}_")(FLOATS)
    with pytest.raises(
        TypeError, match=rf"^{name}_\(\): argument 'other' \(position 2\) must be Ten"
    ):
        getattr(x, f"{name}_")(2.0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("name", NO_NUMBER_FIRST)
def test_a_number_is_refused_first_where_it_may_stand_second(name: str, number: float) -> None:
    getattr(fd, name)(FLOATS, 2)
    with pytest.raises(TypeError, match=rf"^{name}\(\)"):
        getattr(fd, name)(number, FLOATS)


def test_operators_take_a_number_on_either_side() -> None:
    assert (FLOATS < 2).tolist() == [False, False]
    assert (5.0 - FLOATS).tolist() == [2.0, 1.0]
    assert (7 % FLOATS).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("name", ["abs", "floor", "ceil", "round", "trunc", "frac"])
def test_functions_of_numbers_refuse_bool(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(fd, name)(BOOLS)


@pytest.mark.parametrize(
    "name",
    [
        "selu",
        "celu",
        "silu",
        "mish",
        "softplus",
        "hardsigmoid",
        "hardswish",
        "leaky_relu",
        "logsigmoid",
        "softshrink",
        "hardshrink",
        "gelu",
    ],
)
def test_activations_refuse_integers(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        getattr(fd.nn.functional, name)(INTEGERS)


@pytest.mark.parametrize("name", ["dot", "vdot", "inner", "matmul"])
def test_products_of_bool_are_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(fd, name)(BOOLS, BOOLS)


def test_a_floating_operand_beside_an_integer_is_not_refused() -> None:
    assert fd.hypot(FLOATS, INTEGERS).dtype is fd.float32
    assert fd.addcdiv(INTEGERS, FLOATS, INTEGERS).tolist() == [4.0, 5.0]


F = fd.nn.functional
REFUSED = {
    "kl_div of ints": (lambda: F.kl_div(FLOATS, INTEGERS, reduction="sum"), "Integral inputs not"),
    "smooth_l1_loss of ints": (lambda: F.smooth_l1_loss(INTEGERS, INTEGERS), '"smooth_l1_cpu" not'),
    "huber_loss of ints": (lambda: F.huber_loss(INTEGERS, INTEGERS), '"huber_cpu" not implemented'),
    "huber_loss of an int input": (
        lambda: F.huber_loss(INTEGERS, FLOATS),
        "result type Float can't be cast to the desired output type Long",
    ),
    "l1_loss of a bool": (lambda: F.l1_loss(FLOATS, BOOLS), "with a bool tensor is not supported"),
    "soft_margin_loss of an int": (
        lambda: F.soft_margin_loss(INTEGERS, FLOATS),
        "result type Float can't be cast to the desired output type Long",
    ),
    "soft_margin_loss of a larger target": (
        lambda: F.soft_margin_loss(FLOATS, fd.ones(3, 2)),
        r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]",
    ),
    "binary_cross_entropy of another dtype": (
        lambda: F.binary_cross_entropy(FLOATS / 4, INTEGERS),
        "Found dtype Long but expected Float: cast target",
    ),
    "binary_cross_entropy beyond 1": (
        lambda: F.binary_cross_entropy(FLOATS, FLOATS),
        "all elements of input should be between 0 and 1",
    ),
    "binary_cross_entropy of NaN": (
        lambda: F.binary_cross_entropy(FLOATS * float("nan"), FLOATS),
        "all elements of input should be between 0 and 1",
    ),
    "binary_cross_entropy_with_logits of int targets": (
        lambda: F.binary_cross_entropy_with_logits(FLOATS, INTEGERS),
        "result type Float can't be cast to the desired output type Long",
    ),
    "nll_loss of int32": (
        lambda: F.nll_loss(fd.ones(2, 5), INTEGERS.int()),
        "expected target dtype to be Long or Byte, but got Int: it holds numbers of classes",
    ),
    "cross of two dtypes": (
        lambda: fd.cross(fd.ones(3), fd.ones(3).long()),
        "expected scalar type Float but found Long",
    ),
    "prelu of two dtypes": (
        lambda: F.prelu(FLOATS, fd.tensor(1)),
        "prelu: Type promoting not supported. Got Float and Long",
    ),
    "prelu of ints": (lambda: F.prelu(INTEGERS, fd.tensor(1)), '"prelu_cpu" not implemented for'),
    "ldexp of a bool": (lambda: fd.ldexp(FLOATS, BOOLS), '"ldexp_cpu_exp" not implemented for \'B'),
    "isin of bool": (lambda: fd.isin(FLOATS, BOOLS), r"Unsupported input type .* isin\(\): Bool"),
    "bernoulli of ints": (lambda: fd.bernoulli(INTEGERS), '"bernoulli_tensor_cpu_p_" not'),
    "clamp between a tensor and a number": (
        lambda: FLOATS.clamp(FLOATS, 3.5),
        r"clamp\(\) received an invalid combination of arguments: min is Tensor, max float",
    ),
    "float_power_ of float32": (
        lambda: FLOATS.clone().float_power_(2),
        "has dtype Float but the operation's result requires dtype Double",
    ),
    "elu of ints": (lambda: F.elu(INTEGERS), "\"elu_cpu\" not implemented for 'Long'"),
    "hardtanh of bool": (lambda: F.hardtanh(BOOLS), "\"hardtanh\" not implemented for 'Bool'"),
    "cosine_similarity of ints": (
        lambda: F.cosine_similarity(INTEGERS, INTEGERS, dim=0),
        "expected common dtype to be floating point, yet common dtype is Long",
    ),
    "gaussian_nll_loss of an int variance": (
        lambda: F.gaussian_nll_loss(FLOATS, FLOATS, INTEGERS),
        "result type Float can't be cast to the desired output type Long",
    ),
    "nll_loss of ints": (
        lambda: F.nll_loss(fd.ones(2, 5).long(), INTEGERS),
        "\"nll_loss_out_frame\" not implemented for 'Long'",
    ),
    "isin of a bool number": (lambda: fd.isin(FLOATS, True), "Unsupported input type .* Bool"),
    "cov of bool": (lambda: fd.cov(BOOLS), r"cov\(\): bool dtype is not supported for input"),
    "full of a number's size": (lambda: fd.full(2, 1.0), "'size' .* must be a tuple of integers"),
    "to a second tensor": (lambda: FLOATS.to(FLOATS, INTEGERS), "give the Tensor to match first"),
    "mse_loss of ints": (lambda: F.mse_loss(INTEGERS, INTEGERS), '"mse_cpu" not implemented for'),
    "layer_norm of two dtypes": (
        lambda: F.layer_norm(FLOATS.double(), (2,), FLOATS),
        "mixed dtype .* input is fastdist.float64, a parameter fastdist.float32",
    ),
    "batch_norm of two dtypes": (
        lambda: F.batch_norm(fd.ones(3, 2).double(), FLOATS, FLOATS, training=True),
        "mixed dtype .CPU.: all inputs must share same datatype",
    ),
    "multi_margin_loss of int32": (
        lambda: F.multi_margin_loss(fd.ones(2, 5), INTEGERS.int()),
        "expected scalar type Long but found Int",
    ),
    "embedding_bag of floating offsets": (
        lambda: F.embedding_bag(INTEGERS, fd.ones(5, 2), fd.tensor([0.0])),
        "Expected tensor for argument #1 'offsets' to have one of",
    ),
    "trapezoid of bool": (lambda: fd.trapezoid(BOOLS), "trapezoid: received a bool input for `x`"),
    "isclose with a negative bound": (
        lambda: fd.isclose(FLOATS, FLOATS, rtol=-1.0),
        "rtol must be greater than or equal to zero, but got -1.0",
    ),
    "bernoulli_ of int chances": (
        lambda: FLOATS.clone().bernoulli_(INTEGERS),
        '"bernoulli_tensor_cpu_p_" not implemented for',
    ),
    "dropout of ints": (lambda: F.dropout(INTEGERS, 0.5), "\"dropout\" not implemented for 'Long'"),
    "addcmul of a number": (lambda: fd.addcmul(FLOATS, FLOATS, 2), "'tensor2' .* must be Tensor"),
    "lerp to a number": (lambda: fd.lerp(FLOATS, 2.0, 0.5), r"^lerp\(\) received an invalid comb"),
    "cat of a Tensor": (lambda: fd.cat(FLOATS), "'tensors' .* must be a sequence of Tensors"),
    "copy_ with a wrong flag": (lambda: FLOATS.clone().copy_(FLOATS, 1), "'non_blocking' .* bool"),
    "size_average of many": (
        lambda: F.mse_loss(FLOATS, FLOATS, FLOATS),
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("call", "text"), REFUSED.values(), ids=REFUSED)
def test_what_pytorch_refuses_is_refused(call: Callable[[], Any], text: str) -> None:
    for _ in range(2):
        with pytest.raises((RuntimeError, TypeError), match=text):
            call()


def test_bits_of_floats_have_no_kernel() -> None:
    for name in ("bitwise_and", "bitwise_left_shift", "gcd"):
        with pytest.raises(NotImplementedError, match=f"{name}: expected integer or bool tensors"):
            getattr(fd, name)(FLOATS, FLOATS)


def test_a_number_is_not_changed_in_place() -> None:
    with pytest.raises(
        TypeError, match=r"clamp_\(\): argument 'input' .* must be Tensor, not float"
    ):
        fd.clamp_(2.0, 1.0)


def test_what_pytorch_takes_is_taken_in_its_dtype() -> None:
    assert F.elu(FLOATS, True).tolist() == FLOATS.tolist()
    assert F.dropout(INTEGERS, 1.0).tolist() == [0, 0]
    assert fd.ldexp(INTEGERS, BOOLS).tolist() == [6.0, 4.0]
    assert FLOATS.double().float_power_(2).tolist() == [9.0, 16.0]
    product = fd.einsum(fd.ones(2, 3), [0, 1], fd.ones(3, 4), [1, 2], [0, 2])
    assert product.tolist() == [[3.0] * 4] * 2
    assert fd.einsum(fd.ones(2, 3), [..., 1]).shape == (2, 3)
    assert F.nll_loss(-FLOATS, fd.tensor([1])).item() == 4.0
    assert F.huber_loss(FLOATS, FLOATS.double()).dtype is fd.float32
    assert F.soft_margin_loss(FLOATS, FLOATS.double()).dtype is fd.float32
    found = F.cosine_similarity(INTEGERS, FLOATS, dim=0)
    assert found.item() == pytest.approx(1.0)
    assert F.gaussian_nll_loss(INTEGERS, FLOATS, 2.5).item() == pytest.approx(0.4581453)


def test_prelu_takes_no_matrix_of_weights() -> None:
    with pytest.raises(RuntimeError, match="to be a scalar or 1D tensor, but got: ndim = 2"):
        F.prelu(fd.ones(2, 8, 3), fd.ones(2, 4))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(fd.int8, 300), (fd.int64, 1j), (fd.float32, 1j), (fd.int32, math.nan), (fd.float32, 1e300)],
)
def test_masked_fill_takes_no_tensor_whose_number_its_dtype_does_not_hold(
    dtype: Any, value: Any
) -> None:
    given = fd.tensor(value, dtype=fd.float64) if isinstance(value, float) else fd.tensor(value)
    with pytest.raises(
        RuntimeError, match=r"value cannot be converted to type .* without overflow"
    ):
        fd.ones(2, dtype=dtype).masked_fill(BOOLS, given)
    with pytest.raises(
        RuntimeError, match=r"value cannot be converted to type .* without overflow"
    ):
        fd.ones(2, dtype=dtype).masked_fill_(BOOLS, given)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (fd.int8, 300),
        (fd.int8, -129),
        (fd.uint8, 2**40),
        (fd.uint8, -256),
        (fd.int16, 70000),
        (fd.int32, 2**31),
        (fd.int64, 2**63),
        (fd.float32, 1e39),
        (fd.float32, -3.4028235e38),
        (fd.complex64, 1e39),
    ],
)
def test_where_takes_no_number_that_its_dtype_does_not_hold(dtype: Any, number: Any) -> None:
    zeros = fd.zeros(2, dtype=dtype)
    for call in (
        lambda: fd.where(BOOLS, zeros, number),
        lambda: fd.where(BOOLS, number, zeros),
        lambda: fd.where(BOOLS, zeros, number, out=fd.zeros(2, dtype=dtype)),
        lambda: zeros.where(BOOLS, number),
        lambda: fd.vmap(lambda mask, row: fd.where(mask, row, number))(BOOLS[None], zeros[None]),
    ):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without over"):
                call()


def test_where_takes_numbers_that_fit() -> None:
    small = fd.zeros(2, dtype=fd.int8)
    assert fd.where(BOOLS, small, -128).tolist() == [0, -128]
    assert fd.where(BOOLS, fd.zeros(2, dtype=fd.uint8), -1).tolist() == [0, 255]
    assert fd.where(BOOLS, small, 300.5).tolist() == [0.0, 300.5]
    assert fd.where(BOOLS, -math.inf, fd.zeros(2)).tolist() == [-math.inf, 0.0]
    with pytest.raises(RuntimeError, match="float32 without overflow"):
        fd.where(BOOLS, 1e39, 1)


@pytest.mark.parametrize(
    ("dtype", "exponent"), [(fd.int8, 300), (fd.uint8, 300), (fd.int16, 2**63), (fd.int32, 2**31)]
)
def test_no_integer_is_raised_to_a_power_that_its_dtype_does_not_hold(
    dtype: Any, exponent: int
) -> None:
    twos = fd.full((2,), 2, dtype=dtype)
    for call in (lambda: twos**exponent, lambda: twos.pow_(exponent)):
        with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
            call()
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        twos**-1
    assert twos.tolist() == [2, 2]
    assert (fd.ones(2) ** 1e39).tolist() == [1.0, 1.0]


def test_masked_fill_takes_a_tensor_whose_number_fits() -> None:
    assert INTEGERS.masked_fill(BOOLS, fd.tensor(7.5)).tolist() == [7, 4]
    assert FLOATS.masked_fill(BOOLS, fd.tensor(2 + 0j)).tolist() == [2.0, 4.0]
    assert FLOATS.masked_fill(BOOLS, fd.tensor(-math.inf).double()).tolist() == [-math.inf, 4.0]


@pytest.mark.parametrize("lambd", [-0.5, -1, math.inf, math.nan, 1e39])
def test_softshrink_draws_no_number_away_from_0(lambd: float) -> None:
    with pytest.raises(RuntimeError, match=r"lambda must be in range \[0, 3.40282e\+38\] for inp"):
        fd.nn.functional.softshrink(FLOATS, lambd)
    assert fd.nn.functional.softshrink(FLOATS, 0).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("name", ["isneginf", "isposinf", "signbit"])
def test_what_says_whether_writes_into_bool_alone(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype bool, but got"):
        getattr(fd, name)(FLOATS, out=fd.empty(2))


def test_pairs_and_choices_are_written_in_their_own_dtype() -> None:
    for call in (
        lambda: fd.complex(FLOATS, FLOATS, out=fd.empty(2, dtype=fd.complex128)),
        lambda: fd.masked_select(FLOATS, BOOLS, out=fd.empty(0, dtype=fd.float64)),
        lambda: fd.gather(FLOATS, 0, fd.tensor([1]), out=fd.empty(1, dtype=fd.float64)),
        lambda: fd.aminmax(FLOATS, out=(fd.empty(()), fd.empty((), dtype=fd.float64))),
    ):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            call()


@pytest.mark.parametrize("dtype", [fd.int8, fd.int32, fd.int64])
def test_integers_to_the_power_of_a_negative_tensor_are_rounded_towards_zero(dtype: Any) -> None:
    x = fd.tensor([2, 1, -1, -3, 0], dtype=dtype)
    for axes in ((), (1,)):
        for exponent, expected in ((-1, [0, 1, -1, 0, 0]), (-2, [0, 1, 1, 0, 0])):
            power = fd.full(axes, exponent, dtype=dtype)
            for found in (x**power, x.clone().pow_(power), fd.pow(x, power, out=fd.zeros_like(x))):
                assert found.dtype is dtype and found.tolist() == expected
    assert (2 ** fd.tensor(-1)).item() == 0 and (fd.tensor(-1) ** fd.tensor(-3)).item() == -1
    assert ((-1) ** x.abs()).tolist() == [1, -1, -1, -1, 1]


def test_integers_to_a_negative_number_are_refused_after_calls_with_other_numbers_too() -> None:
    x = fd.tensor([1, 2])
    for _ in range(2):
        assert (x**2).tolist() == [1, 4] and (x ** fd.tensor(2)).tolist() == [1, 4]
        for call in (lambda: x**-1, lambda: x.pow(-2), lambda: x.clone().pow_(-1)):
            with pytest.raises(RuntimeError, match="Integers to negative integer powers are not"):
                call()
