"""Activation modules and rrelu: values, in-place results and random slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastdist
from fastdist import nn
from fastdist.nn import functional as F

X = np.array([-4.0, -1.0, -0.2, 0.0, 0.3, 2.0, 7.0])
# (module, its arguments, formula); each module accepts `inplace=True`.
INPLACE = [
    (nn.ReLU, (), lambda x: np.maximum(x, 0)),
    (nn.ReLU6, (), lambda x: np.clip(x, 0, 6)),
    (nn.Threshold, (0.1, 5.0), lambda x: np.where(x > 0.1, x, 5.0)),
    (nn.Hardtanh, (-0.5, 2.5), lambda x: np.clip(x, -0.5, 2.5)),
    (nn.Hardsigmoid, (), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.Hardswish, (), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.SiLU, (), lambda x: x / (1 + np.exp(-x))),
    (nn.Mish, (), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.ELU, (0.3,), lambda x: np.where(x > 0, x, 0.3 * np.expm1(x))),
    (nn.CELU, (0.3,), lambda x: np.where(x > 0, x, 0.3 * np.expm1(x / 0.3))),
    (nn.LeakyReLU, (0.2,), lambda x: np.where(x > 0, x, 0.2 * x)),
    (
        nn.SELU,
        (),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
]
OTHERS = [
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    (nn.LogSigmoid(), lambda x: -np.log1p(np.exp(-x))),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Softplus(2.0, 3.0), lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2)),
    (nn.Hardshrink(0.25), lambda x: np.where(np.abs(x) > 0.25, x, 0)),
    (nn.Softshrink(0.25), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.25, 0)),
    (nn.PReLU(init=0.1).double(), lambda x: np.where(x > 0, x, np.float32(0.1) * x)),
    (nn.Softmin(0), lambda x: np.exp(-x) / np.exp(-x).sum()),
]


@pytest.mark.parametrize(("kind", "numbers", "formula"), INPLACE)
def test_values_are_the_formula_s_and_may_be_written_over_the_input(kind, numbers, formula) -> None:
    x = fastdist.tensor(X)
    out = kind(*numbers)(x)
    np.testing.assert_allclose(out.numpy(), formula(X), rtol=1e-7, atol=1e-12)
    assert out is not x and x.tolist() == X.tolist()
    layer = kind(*numbers, inplace=True)
    assert layer(x) is x and x.equal(out)


@pytest.mark.parametrize(("layer", "formula"), OTHERS)
def test_values_are_the_formula_s(layer, formula) -> None:
    out = layer(fastdist.tensor(X)).detach().numpy()
    np.testing.assert_allclose(out, formula(X), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("relu", ()), ("elu", (0.3,)), ("celu", (0.3,)), ("selu", ()), ("leaky_relu", (0.2,)),
        ("hardtanh", (-0.5, 0.5)), ("threshold", (0.1, 5.0)), ("rrelu", (0.1, 0.2)),
    ],
)  # fmt: skip
def test_functions_with_an_underscore_write_over_their_input(name, numbers) -> None:
    x = fastdist.tensor(X)
    expected = getattr(F, name)(x, *numbers)
    assert getattr(F, f"{name}_")(x, *numbers) is x and x.equal(expected)


def test_glu_halves_an_axis() -> None:
    x = fastdist.tensor(np.arange(8.0).reshape(2, 4))
    a, b = np.arange(8.0).reshape(2, 2, 2).transpose(1, 0, 2)
    np.testing.assert_allclose(nn.GLU()(x).numpy(), a / (1 + np.exp(-b)))
    with pytest.raises(RuntimeError, match="glu does not support scalars"):
        F.glu(fastdist.tensor(1.0))
    with pytest.raises(RuntimeError, match="Halving dimension must be even, but dimension 0"):
        F.glu(fastdist.ones(3, 2), 0)


def test_softmax_of_images_is_along_their_channels() -> None:
    x = fastdist.randn(2, 3, 4, 5)
    np.testing.assert_allclose(nn.Softmax2d()(x).sum(1).numpy(), np.ones((2, 4, 5)), rtol=1e-6)
    assert nn.Softmax2d()(x[0]).equal(nn.Softmax2d()(x)[0])
    with pytest.raises(ValueError, match="expected input to be 3D or 4D, got 2D"):
        nn.Softmax2d()(x[0, 0])


def test_hardtanh_keeps_its_bounds_in_order_and_knows_their_old_names() -> None:
    with pytest.raises(AssertionError, match=r"max_val \(1\) must be greater than min_val \(2\)"):
        nn.Hardtanh(2, 1)
    with pytest.warns(FutureWarning, match="`min_value` is deprecated and rename to `min_val`"):
        assert nn.Hardtanh(min_value=-3).min_val == -3


def test_rrelu_draws_slopes_in_training_and_takes_their_mean_else() -> None:
    fastdist.manual_seed(0)
    x = fastdist.full((2000,), -2.0, requires_grad=True)
    layer = nn.RReLU(0.1, 0.3)
    slopes = (layer(x) / x).detach().numpy()
    assert slopes.min() >= 0.1 and slopes.max() < 0.3 and abs(slopes.mean() - 0.2) < 0.01
    layer(x).sum().backward()
    assert len(set(x.grad.tolist())) > 1900
    np.testing.assert_allclose(layer.eval()(x).detach().numpy(), -0.4, rtol=1e-6)
    assert layer.train()(fastdist.tensor([3.0])).tolist() == [3.0]
    with pytest.raises(RuntimeError, match="Lower bound should be less than or equal to the upper"):
        F.rrelu(x, 0.5, 0.1)


# ---- dropout ------------------------------------------------------------------------------------

CHANNELS = [(nn.Dropout1d, (50, 40, 3)), (nn.Dropout2d, (50, 40, 3, 2)),
            (nn.Dropout3d, (50, 40, 3, 2, 2)), (nn.FeatureAlphaDropout, (50, 40, 3))]  # fmt: skip


@pytest.mark.parametrize(("kind", "shape"), CHANNELS)
@pytest.mark.parametrize("inplace", [False, True])
def test_channels_are_dropped_as_a_whole(kind, shape: tuple[int, ...], inplace: bool) -> None:
    fastdist.manual_seed(0)
    x = fastdist.ones(shape)
    out = kind(0.25, inplace)(x)
    rows = out.numpy().reshape(2000, -1)
    assert (rows == rows[:, :1]).all() and len(np.unique(rows)) == 2
    assert abs((rows[:, 0] == rows[:, 0].max()).mean() - 0.75) < 0.03
    if "Alpha" not in kind.__name__:
        assert sorted(np.unique(rows)) == pytest.approx([0.0, 4 / 3])
    assert (out is x) == inplace
    assert kind(0.25).eval()(x) is x


@pytest.mark.parametrize(
    ("function", "shape"), [(F.dropout1d, (20, 3)), (F.dropout3d, (20, 3, 2, 2))]
)
def test_channels_may_come_without_a_batch(function, shape: tuple[int, ...]) -> None:
    fastdist.manual_seed(1)
    rows = function(fastdist.ones(shape)).numpy().reshape(20, -1)
    assert (rows == rows[:, :1]).all() and {*rows[:, 0]} == {0.0, 2.0}
    x = fastdist.ones(shape)
    assert function(x, inplace=True) is x


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    fastdist.manual_seed(0)
    x = fastdist.randn(200_000)
    out = nn.AlphaDropout(0.3)(x)
    assert abs(out.mean().item()) < 0.02 and abs(out.std().item() - 1) < 0.02
    # A dropped element becomes selu's lowest value; then a scale and a shift apply to all elements.
    a = 1 / math.sqrt((1.7580993408473766**2 * 0.3 + 1) * 0.7)
    lowest = -1.7580993408473766 * a + 1.7580993408473766 * a * 0.3
    assert abs(np.isclose(out.numpy(), lowest, atol=1e-6).mean() - 0.3) < 0.01
    assert F.alpha_dropout(x, 1.0, True).count_nonzero().item() == 0
    assert F.alpha_dropout(x) is x


def test_dropout_says_what_it_cannot_take() -> None:
    x = fastdist.ones(3)
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 1D"):
        F.dropout1d(x)
    with pytest.raises(RuntimeError, match="Feature dropout requires at least 2 dimensions"):
        F.feature_alpha_dropout(x, training=True)
    for function in (F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            function(fastdist.ones(2, 2, 2, 2), 1.5)
    with pytest.warns(UserWarning, match="interpreted as shape"):
        F.dropout2d(fastdist.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="dropout3d: Received a 3-D input"):
        F.dropout3d(fastdist.ones(2, 3, 4))


def test_gradients_of_what_is_dropped_are_0() -> None:
    fastdist.manual_seed(0)
    x = fastdist.ones(20, 10, 3, requires_grad=True)
    out = F.dropout1d(x)
    out.sum().backward()
    assert x.grad.equal(out.detach())


def test_hardtanh_of_integers_cuts_off_its_bounds_first() -> None:
    for dtype in (fastdist.uint8, fastdist.uint16, fastdist.int8):
        whole = fastdist.tensor([0, 1, 5], dtype=dtype)
        assert F.hardtanh(whole, -0.5, 2.5).tolist() == [0, 1, 2]
        for bounds in ((-math.inf, 2.0), (0.0, math.inf), (0.0, 1e30)):
            with pytest.raises(RuntimeError, match="without overflow"):
                F.hardtanh(whole, *bounds)
    for dtype in (fastdist.uint8, fastdist.uint16):
        with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
            F.hardtanh(fastdist.tensor([0, 1], dtype=dtype), -1.5, 3.0)


def test_hardtanh_keeps_integers() -> None:
    found = F.hardtanh(fastdist.tensor([-3, 0, 3]), -1.5, 2.5)
    assert found.dtype is fastdist.int64 and found.tolist() == [-1, 0, 2]
    small = fastdist.tensor([100], dtype=fastdist.int8)
    with pytest.raises(RuntimeError, match="cannot be converted to type int8 without overflow"):
        F.hardtanh(small, -300, 300)
    with pytest.raises(RuntimeError, match="on an unsigned type with negative limits"):
        F.hardtanh(small.to(fastdist.uint8))


@pytest.mark.parametrize("function", [fastdist.celu, F.celu, F.celu_])
def test_celu_refuses_an_alpha_of_0(function) -> None:
    with pytest.raises(RuntimeError, match="alpha cannot be 0 for CELU"):
        function(fastdist.ones(2), alpha=0)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.softplus, (3,)), (F.hardshrink, (3,)), (F.softshrink, (3,)), (F.gelu, (3,)),
        (lambda x, **how: F.avg_pool2d(x, 2, **how), (1, 2, 4, 4)),
        (lambda x, **how: F.avg_pool3d(x, 2, **how), (1, 2, 4, 4, 4)),
    ],
)  # fmt: skip
def test_functions_write_into_out_where_pytorch_s_do(function, shape: tuple[int, ...]) -> None:
    x = fastdist.randn(shape)
    expected = function(x)
    out = fastdist.empty(expected.shape)
    assert function(x, out=out) is out and fastdist.equal(out, expected)
