"""Structured ops take the short path for ordinary calls only."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import autograd
from fastdist.autograd import forward_ad
from fastdist.dispatch.op import OPS
from fastdist.dispatch.route import Route
from fastdist.dispatch.structured import StructuredOp
from fastdist.engine.backward import modes_engine
from tests.dispatch.paths import general_calls, gradient_of

F = fd.nn.functional

PLACES = fd.tensor([2, 0, 3])
# Calls on a 4x4 matrix. All of these ops have a short path.
CALLS: dict[str, Callable[[Any], Any]] = {
    "sum(1)": lambda x: x.sum(1),
    "sum(0, keepdim)": lambda x: x.sum(0, keepdim=True),
    "mean()": lambda x: x.mean(),
    "mean(-1)": lambda x: x.mean(-1),
    "prod(1)": lambda x: x.prod(1),
    "amax(1)": lambda x: x.amax(1),
    "max(1)": lambda x: x.max(1).values,
    "var(1)": lambda x: x.var(1),
    "std(0)": lambda x: x.std(0),
    "biased var": lambda x: x.var(1, unbiased=False),
    "biased std": lambda x: x.std(1, correction=0.0),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(1),
    "norm": lambda x: x.norm(),
    "softmax": lambda x: F.softmax(x, 1),
    "softmax in another dtype": lambda x: F.softmax(x, 1, dtype=fd.float64),
    "sum in another dtype": lambda x: x.sum(1, dtype=fd.float64),
    "softmax(0)": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, (4,), x[0], x[1]),
    "linear": lambda x: F.linear(x, x * 2, x[0]),
    "cross_entropy": lambda x: F.cross_entropy(x, fd.tensor([1, 3, 0, 1])),
    "nll_loss": lambda x: F.nll_loss(x, fd.tensor([1, 3, 0, 1])),
    "index_select": lambda x: x.index_select(0, PLACES),
    "gather": lambda x: x.gather(1, fd.tensor([[1], [0], [3], [3]])),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(fd.float64),
    "flip": lambda x: x.flip(0),
    "tril": lambda x: x.tril(),
    "sort": lambda x: x.sort(1).values,
}
every_call = pytest.mark.parametrize("name", CALLS)


def values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)


def leaf(seed: int = 0) -> Any:
    return fd.tensor(values(seed), requires_grad=True)


@every_call
def test_a_second_call_takes_the_short_path(name: str) -> None:
    x = leaf()
    CALLS[name](x), CALLS[name](x.detach())
    with general_calls(StructuredOp) as went:
        CALLS[name](x), CALLS[name](x.detach())
    assert went == []


@pytest.mark.one_in(4)
@every_call
def test_values_and_gradients_are_those_of_the_general_path(name: str) -> None:
    """Anomaly mode forces the general path."""
    call, x = CALLS[name], leaf()
    call(x)
    found, gradient = call(x).detach().numpy(), gradient_of(call, x)
    with autograd.set_detect_anomaly(True):
        expected, wanted = call(x).detach().numpy(), gradient_of(call, x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(gradient, wanted, rtol=2e-5, atol=1e-6)


@every_call
def test_raw_gradients_are_those_that_can_be_differentiated_again(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    out = call(x)
    g = fd.ones_like(out.detach()) * 0.5
    (recorded,) = autograd.grad(out, x, g, create_graph=True)
    np.testing.assert_allclose(
        gradient_of(call, x), recorded.detach().numpy(), rtol=2e-5, atol=2e-6
    )


@every_call
def test_the_engine_and_the_inline_loop_agree(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    inline = gradient_of(call, x)
    modes_engine.always = True
    try:
        engine = gradient_of(call, x)
    finally:
        modes_engine.always = False
    np.testing.assert_array_equal(inline, engine)


@pytest.mark.one_in(4)
@every_call
def test_strided_inputs_give_what_their_copies_give(name: str) -> None:
    call = CALLS[name]
    x = fd.tensor(values().T.copy()).t()
    assert not x.is_contiguous()
    for _ in range(2):
        found = call(x)
    np.testing.assert_allclose(found.numpy(), call(x.contiguous()).numpy(), rtol=2e-6, atol=1e-6)


@every_call
def test_nothing_is_recorded_in_no_grad_and_for_other_threads(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    with fd.no_grad():
        assert not call(x).requires_grad
        elsewhere: list[bool] = []
        thread = threading.Thread(target=lambda: elsewhere.append(call(x).requires_grad))
        thread.start()
        thread.join(30)
    assert elsewhere == [True]


@every_call
def test_an_open_level_carries_tangents_past_the_short_path(name: str) -> None:
    call, x = CALLS[name], fd.tensor(values(), dtype=fd.float64)
    t = fd.tensor(values(1), dtype=fd.float64)
    call(x), call(x)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(call(forward_ad.make_dual(x, t))).tangent
        assert forward_ad.unpack_dual(call(x)).tangent is None
    step = 1e-6
    expected = (call(x + t * step) - call(x - t * step)) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=2e-4, atol=1e-5)


class Mine(fd.Tensor):
    """A user-defined subclass of Tensor."""


def test_a_subclass_goes_the_general_path() -> None:
    x = fd.tensor(values())
    x.softmax(1)
    mine = object.__new__(Mine)
    mine._array, mine._layout = x._array, x._layout
    mine._edge = mine._extra = mine._storage = None
    with general_calls(StructuredOp) as went:
        found = mine.softmax(1)
    assert went == ["softmax"]
    np.testing.assert_array_equal(found.numpy(), x.softmax(1).numpy())


@pytest.mark.parametrize("dim", [True, 1.0])
def test_what_equals_a_dim_but_is_none_is_refused_after_it_as_well(dim: Any) -> None:
    x = fd.tensor(values())
    x.softmax(1), x.sum(1)
    with pytest.raises(TypeError):
        x.softmax(dim)
    with pytest.raises(TypeError):
        x.sum(dim)


def test_a_wrong_dim_says_so_each_time() -> None:
    x = fd.tensor(values())
    for _ in range(2):
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.softmax(2)


def test_lists_of_dims_work_though_they_are_no_keys() -> None:
    x = fd.tensor(values())
    for _ in range(3):
        np.testing.assert_allclose(x.sum([0, 1]).numpy(), values().sum(), rtol=1e-5)


def test_out_is_written_on_the_second_call_too() -> None:
    x, out = fd.tensor(values()), fd.zeros(4)
    for _ in range(2):
        out.zero_()
        assert fd.sum(x, 1, out=out) is out
    np.testing.assert_allclose(out.numpy(), values().sum(1), rtol=1e-6)


def test_numpy_s_names_of_arguments_work_on_the_second_call_too() -> None:
    x = fd.tensor(values())
    for _ in range(3):
        assert x.sum(axis=1).shape == (4,)
        assert x.sum(axis=1, keepdims=True).shape == (4, 1)
        assert x.sum().shape == ()


def test_empty_and_0d_tensors_keep_their_results() -> None:
    for _ in range(2):
        assert fd.zeros(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
        assert fd.zeros(3, 0).sum(1).tolist() == [0.0, 0.0, 0.0]
        assert np.isnan(fd.zeros(0).mean().item())
        assert fd.tensor(2.0).sum().item() == 2.0
        assert F.softmax(fd.tensor(2.0), 0).item() == 1.0
        assert F.softmax(fd.zeros(0, 3), 1).shape == (0, 3)
        with pytest.raises((RuntimeError, IndexError)):
            fd.zeros(0).amax(0)


def test_a_changed_default_dtype_is_seen() -> None:
    x = fd.tensor([1, 2])
    assert x.logsumexp(0).dtype is fd.float32
    fd.set_default_dtype(fd.float64)
    try:
        assert x.logsumexp(0).dtype is fd.float64
    finally:
        fd.set_default_dtype(fd.float32)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_saved_output_that_was_changed_is_noticed(name: str) -> None:
    x = leaf()
    for _ in range(2):
        out = CALLS[name](x)
    out.detach().mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["linear", "cross_entropy", "prod(1)"])
def test_a_saved_input_that_was_changed_is_noticed(name: str) -> None:
    x = leaf()
    inner = x * 1.0
    CALLS[name](inner)
    out = CALLS[name](inner)
    inner.detach().add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "linear", "prod(1)"])
def test_a_second_pass_needs_retain_graph(name: str) -> None:
    x = leaf()
    CALLS[name](x)
    out = CALLS[name](x).sum()
    out.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    out.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_what_saves_nothing_may_run_again() -> None:
    x = leaf()
    x.sum(1)
    out = x.sum(1)
    g = fd.ones(4)
    out.backward(g), out.backward(g)
    np.testing.assert_array_equal(x.grad.numpy(), np.full((4, 4), 2.0))


@every_call
def test_hooks_see_the_gradients_of_the_short_path(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    plain = gradient_of(call, x)
    seen: list[Any] = []
    x.grad = None
    out = call(x)
    out.register_hook(lambda g: g * 2.0)
    out.grad_fn.register_hook(lambda given, got: seen.append((given, got)))
    out.backward(fd.ones_like(out.detach()) * 0.5)
    np.testing.assert_allclose(x.grad.numpy(), 2 * plain, rtol=1e-5, atol=1e-6)
    assert seen and seen[0][1][0].shape == out.shape


@every_call
def test_gradients_do_not_share_memory_with_what_came_in(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    out = call(x)
    g = fd.ones_like(out.detach())
    out.backward(g)
    x.grad.mul_(3.0)
    assert bool((g == 1.0).all())


def test_frozen_inputs_get_no_gradient() -> None:
    x, weight = leaf(), leaf(1)
    for frozen, moving in ((x, weight), (weight, x)):
        for one in (frozen, moving):
            one.grad = None
            one.requires_grad_(one is moving)
        for _ in range(2):
            F.linear(x, weight).sum().backward()
        assert frozen.grad is None and moving.grad is not None


def test_ways_are_found_by_all_layouts() -> None:
    x = fd.tensor(values())
    for shape in ((2, 4), (3, 4), (2, 4)):
        assert F.linear(x, fd.ones(shape), None).shape == (4, shape[0])
        assert F.linear(x, fd.ones(shape), fd.ones(shape[0])).shape == (4, shape[0])


def test_a_call_like_the_last_one_takes_its_route_and_no_other_call_does() -> None:
    x, wide = fd.tensor(values()[:, :3].copy()), fd.ones(4, 5)
    axes = [0]
    for _ in range(3):
        assert x.sum(0).shape == (3,) and x.sum(1).shape == (4,)
        assert x.sum(1, True).shape == (4, 1) and x.sum(1, False).shape == (4,)
        assert wide.sum(1).shape == (4,) and wide.sum(0).shape == (5,)
        assert x.softmax(0).sum(0).tolist() == pytest.approx([1.0] * 3)
        assert x.softmax(1).sum(1).tolist() == pytest.approx([1.0] * 4)
        axes[0] = 1 - axes[0]
        assert x.sum(axes).shape == ((4,) if axes == [1] else (3,))
        assert x.sum(0, dtype=fd.float64).dtype is fd.float64


def test_a_saved_result_is_watched_from_its_first_call_on() -> None:
    x = fd.tensor(values()).requires_grad_()
    for _ in range(3):
        out = x.softmax(1)
        assert out._version == 0
        out.detach().mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_a_float_of_no_size_makes_no_route() -> None:
    """0.0 and -0.0 are equal as dict keys, but are different numbers."""
    layout = fd.tensor(values())._layout
    before = [one for one in layout.routes.values() if isinstance(one, Route)]
    OPS["add_slices"].general((fd.zeros(4, 4), PLACES, fd.ones(3, 4)), (0, 0.0))
    after = [one for one in layout.routes.values() if isinstance(one, Route)]
    assert len(after) == len(before)


def test_short_ways_are_silent() -> None:
    x = fd.tensor([[float("nan"), float("inf")], [float("-inf"), 0.0]], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            for name in ("softmax", "log_softmax", "mean(-1)", "var(1)", "logsumexp", "norm"):
                CALLS[name](x).sum().backward()


def test_layouts_go_with_their_tensors() -> None:
    from fastdist.ops.create import quick
    from fastdist.tensor.layout import Layout

    def layouts() -> int:
        # Clear the caches, which keep the most recent layouts alive even without a tensor.
        Layout._recent.clear()
        quick.kept_layout.cache_clear()
        gc.collect()
        return len(Layout._interned)

    F.softmax(fd.ones(3, 3), 1)
    before = layouts()
    for n in range(20, 40):
        F.softmax(fd.ones(n, 7), 1).sum(0)
    assert layouts() <= before + 8


def test_a_tensor_among_the_attributes_may_change() -> None:
    x, shift = fd.arange(4.0), fd.tensor(1)
    assert x.roll((shift,)).tolist() == [3.0, 0.0, 1.0, 2.0]
    shift.fill_(2)
    assert x.roll((shift,)).tolist() == [2.0, 3.0, 0.0, 1.0]


def test_matmul_of_infinities_is_silent_forward_and_backward() -> None:
    x = fd.full((8, 8), float("inf"), requires_grad=True)
    y = fd.zeros(8, 8, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product = x @ y
        product.backward(fd.full((8, 8), float("inf")))
    assert bool(product.isnan().all())


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16, fd.float64])
def test_a_later_cast_takes_the_short_path(dtype: Any) -> None:
    x = fd.ones(3, 5)
    for _ in range(2):
        x.to(dtype)
    with general_calls(StructuredOp) as went:
        assert x.to(dtype).dtype is dtype
    assert went == []
