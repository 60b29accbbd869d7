"""Kernels for second derivatives are right without the kernels for small arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.devices.find_kernel import find_kernel
from fastdist.kernels.cpu.halves import in_float32
from fastdist.kernels.cpu.small.call_facts import CallFacts
from fastdist.kernels.cpu.small.kernels import GRADIENTS, KERNELS, small_kernel

EPS = 0.1
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def target_of(count: int, classes: int = 4) -> Any:
    return np.arange(count) * 7 % classes


def normal(x: Any, axes: Any) -> Any:
    away = x - x.mean(axes, True)
    return away / ((away * away).mean(axes, True) + EPS).sqrt()


def by_channel(w: Any, x: Any) -> Any:
    return w.reshape(-1, *[1] * (x.ndim - 2))


def log_shares(x: Any) -> Any:
    return x - x.exp().sum(-1, True).log()


def own_losses(x: Any) -> Any:
    return -log_shares(x).gather(1, fd.tensor(target_of(*x.shape)).reshape(-1, 1)).reshape(-1)


def plain_variance(x: Any, w: Any) -> Any:
    away = x - x.mean(-1, True)
    return (away * away).sum(-1) / (x.shape[-1] - 1)


def plain_groups(x: Any, w: Any) -> Any:
    groups = normal(x.reshape(x.shape[0] * 2, -1), 1).reshape(x.shape)
    return groups * by_channel(w, x)


def plain_channels(x: Any, w: Any) -> Any:
    return normal(x, [axis for axis in range(x.ndim) if axis != 1]) * by_channel(w, x)


def plain_known(x: Any, w: Any) -> Any:
    scale = (w.square().detach() + EPS).sqrt()
    return (x - by_channel(w.detach(), x)) / by_channel(scale, x) * by_channel(w, x)


def known(x: Any, w: Any) -> Any:
    return F.batch_norm(x, w.detach(), w.square().detach(), w, None, False, eps=EPS)


class Case(NamedTuple):
    """A public call with an input and a weight, an equivalent expression, and the kernel's
    arguments.

    The arguments are made from arrays g, x and w.
    """

    public: Callable[[Any, Any], Any]
    plain: Callable[[Any, Any], Any]
    arguments: Callable[[Any, Any, Any], list[Any]]
    numbers: Callable[[tuple[int, ...]], tuple[Any, ...]] = lambda shape: ()


def with_row_numbers(groups: int = 1) -> Callable[[Any, Any, Any], list[Any]]:
    def arguments(g: Any, x: Any, w: Any) -> list[Any]:
        rows = x.reshape(len(x) * groups, math.prod(x.shape[1:]) // groups)
        deviation = np.sqrt(rows.var(1, keepdims=True) + x.dtype.type(EPS))
        return [g, x, w, rows.mean(1, keepdims=True), deviation]

    return arguments


def with_scales(g: Any, x: Any, w: Any) -> list[Any]:
    return [g, x, w, 1 / np.sqrt(np.square(x).mean(1, keepdims=True) + x.dtype.type(EPS))]


def with_channel_numbers(g: Any, x: Any, w: Any) -> list[Any]:
    axes = (0, *range(2, x.ndim))
    return [g, x, w, x.mean(axes), x.var(axes)]


def shares_of(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def with_powers(g: Any, x: Any, w: Any) -> list[Any]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return [g, x, target_of(*x.shape), powers, powers.sum(1)]


def of_losses(reduction: str, code: int) -> Case:
    def public(x: Any, w: Any) -> Any:
        return F.cross_entropy(x, fd.tensor(target_of(*x.shape)), reduction=reduction)

    def plain(x: Any, w: Any) -> Any:
        losses = own_losses(x)
        return losses if not code else losses.mean() if code == 1 else losses.sum()

    return Case(public, plain, with_powers, lambda shape: (code,))


CASES = {
    "nn.softmax.softmax_slope": Case(
        lambda x, w: x.softmax(-1),
        lambda x, w: log_shares(x).exp(),
        lambda g, x, w: [g, shares_of(x)],
    ),
    "nn.softmax.log_softmax_slope": Case(
        lambda x, w: x.log_softmax(-1),
        lambda x, w: log_shares(x),
        lambda g, x, w: [g, np.log(shares_of(x))],
    ),
    "nn.cross_entropy.slope": of_losses("none", 0),
    "nn.cross_entropy.slope mean": of_losses("mean", 1),
    "nn.cross_entropy.slope sum": of_losses("sum", 2),
    "reduce.row_slopes.var": Case(
        lambda x, w: x.var(-1),
        plain_variance,
        lambda g, x, w: [g, x],
        lambda shape: (shape[-1], 2.0 / (shape[-1] - 1)),
    ),
    "reduce.row_slopes.logsumexp": Case(
        lambda x, w: x.logsumexp(-1),
        lambda x, w: x.exp().sum(-1).log(),
        lambda g, x, w: [g, x],
        lambda shape: (shape[-1],),
    ),
    "reduce.row_slopes.norm": Case(
        lambda x, w: x.norm(dim=-1),
        lambda x, w: (x * x).sum(-1).sqrt(),
        lambda g, x, w: [g, np.sqrt((x * x).sum(-1)), x],
        lambda shape: (shape[-1],),
    ),
    "nn.norm_slopes.layer_norm": Case(
        lambda x, w: F.layer_norm(x, (x.shape[1],), w, None, EPS),
        lambda x, w: normal(x, 1) * w,
        with_row_numbers(),
    ),
    "nn.norm_slopes.rms_norm": Case(
        lambda x, w: F.rms_norm(x, (x.shape[1],), w, EPS),
        lambda x, w: x / ((x * x).mean(1, True) + EPS).sqrt() * w,
        with_scales,
    ),
    "nn.norm_slopes.group_norm": Case(
        lambda x, w: F.group_norm(x, 2, w, None, EPS),
        plain_groups,
        with_row_numbers(2),
        lambda shape: (2, EPS),
    ),
    "nn.norm_slopes.batch_norm": Case(
        lambda x, w: F.batch_norm(x, None, None, w, None, True, eps=EPS),
        plain_channels,
        with_channel_numbers,
        lambda shape: (EPS,),
    ),
}
# Results of a forward kernel, not of its gradient.
FORWARD = {
    "nn.channel_norms.groups": Case(
        lambda x, w: F.group_norm(x, 2, w, None, EPS),
        plain_groups,
        lambda g, x, w: [x, w, None],
        lambda shape: (2, EPS),
    ),
    "nn.channel_norms.by_known": Case(
        known, plain_known, lambda g, x, w: [x, w, np.square(w), w, None], lambda shape: (EPS,)
    ),
}
ALL = CASES | FORWARD
HAS_PLACES = [name for name in ALL if "group" in name or "batch" in name or "known" in name]


def shapes_of(name: str) -> list[tuple[int, ...]]:
    """Return shapes with few and with many elements."""
    if name in HAS_PLACES:
        return [(6, 4, 5), (6, 4), (300, 40, 7, 3)]
    return [(6, 4), (1, 9), (70, 1200)]


def draw(name: str, shape: tuple[int, ...], dtype: Any, *, strided: bool) -> list[Any]:
    """Return g, x and w for a case."""
    drawn = np.random.default_rng(sum(shape))
    x, w = drawn.standard_normal(shape), drawn.uniform(0.5, 2.0, shape[1])
    g = drawn.standard_normal(ALL[name].plain(fd.tensor(x), fd.tensor(w)).shape)
    made = [one.astype(dtype) for one in (g, x, w)]
    return [apart(one) for one in made] if strided else made


def apart(x: Any) -> Any:
    """Return x with gaps between its elements and reversed axis order in memory."""
    return np.repeat(x.T, 2, axis=0)[::2].T if x.ndim else x


def expected_of(name: str, g: Any, x: Any, w: Any) -> Any:
    """Return the result of a case computed by float64 expressions."""
    x, w, g = (fd.tensor(np.array(one, np.float64)) for one in (x, w, g))
    out = ALL[name].plain(x.requires_grad_(), w)
    if name in FORWARD:
        return out.detach().numpy()
    return fd.autograd.grad(out, [x], g)[0].numpy()


def extra_of(name: str, x: Any) -> list[Any]:
    rows = (len(x) * 2, 1)
    return [np.empty(rows, x.dtype) for _ in range(2 * (name == "nn.channel_norms.groups"))]


def by_kernel(name: str, g: Any, x: Any, w: Any, *, strided: bool = False) -> list[Any]:
    case, out = ALL[name], np.empty_like(x)
    made = [apart(out) if strided else out, *extra_of(name, x)]
    find_kernel("cpu", name.split()[0])(*case.arguments(g, x, w), *made, *case.numbers(x.shape))
    return made


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_kernels_make_what_expressions_make(name: str, strided: bool, dtype: str) -> None:
    tolerance = TOLERANCE[dtype]
    for shape in shapes_of(name):
        given = draw(name, shape, dtype, strided=strided)
        kept = [one.copy() for one in given]
        found = by_kernel(name, *given, strided=strided)[0]
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, expected_of(name, *given), rtol=tolerance, atol=tolerance, err_msg=str(shape)
        )
        for one, before in zip(given, kept, strict=True):
            assert np.array_equal(one, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ALL)
def test_kernels_agree_with_those_for_few_numbers(name: str, dtype: str) -> None:
    shape, case, kind = shapes_of(name)[0], ALL[name], np.dtype(dtype)
    given = draw(name, shape, dtype, strided=False)
    arguments = case.arguments(*given)
    facts = CallFacts(
        tuple([None if one is None else one.shape for one in arguments]),
        tuple([None if one is None else one.dtype for one in arguments]),
        tuple([one is not None for one in arguments]),
        *(shape, kind, case.numbers(shape), None),
    )
    run = small_kernel(name.split()[0], facts)
    assert run is not None
    expected = run(*arguments)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    tolerance = TOLERANCE[dtype] / 10
    for one, other in zip(by_kernel(name, *given), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in CASES if "softmax" in name or "entropy" in name])
def test_slopes_keep_the_digits_of_small_shares(name: str) -> None:
    x = np.array([[0.0, 30.0, -2.0, 1.0], [50.0, 0.0, 0.0, 0.0]])
    g = np.arange(1.0, 9.0).reshape(x.shape)
    if "entropy" in name:
        g = np.ones(() if " " in name else 2)
    found = []
    for dtype in ("float32", "float64"):
        given = [one.astype(dtype) for one in (g, x, np.ones(4))]
        found.append(by_kernel(name, *given)[0])
    np.testing.assert_allclose(*found, rtol=2e-4, atol=1e-25)


@pytest.mark.parametrize("name", ALL)
def test_half_types_compute_in_float32(name: str) -> None:
    shape, case = shapes_of(name)[0], ALL[name]
    given = draw(name, shape, "float16", strided=False)
    kernel = find_kernel("cpu", name.split()[0])
    out = np.empty(shape, "float16")
    extra = extra_of(name, np.empty(shape, "float32"))
    run = in_float32(name.split()[0], kernel, len(case.arguments(*given)))
    run(*case.arguments(*given), out, *extra, *case.numbers(shape))
    np.testing.assert_allclose(out, expected_of(name, *given), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("name", [name for name in ALL if "_norm" in name or "norms." in name])
def test_a_weight_may_be_left_out(name: str) -> None:
    shape = shapes_of(name)[0]
    g, x, _ = draw(name, shape, "float64", strided=False)
    one, case = np.ones(shape[1]), ALL[name]
    arguments = case.arguments(g, x, one)
    place = 3 if "known" in name else 1 if "groups" in name else 2
    assert arguments[place] is one
    arguments[place] = None
    out = np.empty_like(x)
    kernel = find_kernel("cpu", name)
    kernel(*arguments, out, *extra_of(name, x), *case.numbers(shape))
    np.testing.assert_allclose(out, by_kernel(name, g, x, one)[0], rtol=1e-14)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row_without_a_warning(name: str, bad: float) -> None:
    shape = (6, 4, 5) if name in HAS_PLACES else (6, 4)
    given = draw(name, shape, "float32", strided=False)
    expected = by_kernel(name, *given)[0]
    given[1][0, 0] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            arguments = ALL[name].arguments(*given)
        out = np.empty_like(given[1])
        numbers = ALL[name].numbers(shape)
        kernel = find_kernel("cpu", name.split()[0])
        kernel(*arguments, out, *extra_of(name, given[1]), *numbers)
    touched = np.zeros(shape, bool)
    if "batch" in name:
        touched[:, 0] = True
    else:
        touched[0, : 1 if "known" in name else 2 if "group" in name else None] = True
    assert not np.isfinite(out[touched]).all()
    assert np.array_equal(out[~touched], expected[~touched])


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_made_of_nothing(name: str) -> None:
    shape = (0, 4, 5) if name in HAS_PLACES else (0, 4)
    x, w, case = np.empty(shape), np.ones(4), ALL[name]
    g = x[:, 0] if name.startswith(("reduce", "nn.cross")) else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of empty arrays
        arguments = case.arguments(g if name[-4:] not in ("mean", " sum") else w[0], x, w)
    extra = extra_of(name, x)
    kernel = find_kernel("cpu", name.split()[0])
    kernel(*arguments, np.empty(shape), *extra, *case.numbers(shape))


def test_groups_without_elements_have_nan_as_mean_and_deviation() -> None:
    x = np.empty((3, 4, 0))
    made = np.empty_like(x), np.zeros((6, 1)), np.zeros((6, 1))
    find_kernel("cpu", "nn.channel_norms.groups")(x, None, None, *made, 2, EPS)
    assert np.isnan(made[1]).all() and np.isnan(made[2]).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ALL)
def test_calls_without_a_small_kernel_are_made_by_these(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A shape that no other test uses, because the chosen function is cached by layout.
    rows = 40 + [*ALL].index(name)
    shape = (rows, 4, 6) if name in HAS_PLACES else (rows, 13)
    kernel, asked = name.split()[0], []
    import_module("fastdist.kernels.cpu.small.second_gradients")  # defines its kernels on import
    monkeypatch.setitem(KERNELS, kernel, lambda facts: asked.append(facts.shape))
    monkeypatch.setitem(GRADIENTS, kernel, lambda facts: None)
    g, x, w = draw(name, shape, "float64", strided=False)
    q = np.random.default_rng(1).standard_normal(shape)
    found = []
    for call in (ALL[name].public, ALL[name].plain):
        leaf, weight = fd.tensor(x).requires_grad_(), fd.tensor(w).requires_grad_()
        given = fd.tensor(g).requires_grad_()
        out = call(leaf, weight)
        (slope,) = fd.autograd.grad(out, [leaf], given, create_graph=True)
        wanted = [given, leaf, weight]
        second = fd.autograd.grad(slope, wanted, fd.tensor(q), allow_unused=True)
        found.append([out.detach(), slope.detach(), *[one for one in second if one is not None]])
    assert shape in asked
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
