"""Rows and columns of Jacobians from vmap equal those that are computed one by one."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd.functional import hessian as hessian_of
from fastdist.autograd.functional import jacobian
from fastdist.func import hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.ops.cases import Case, as_tensors
from tests.ops.test_table import DIFFERENTIABLE, differentiated

X = fd.tensor([0.3, -1.2, 2.0, 0.7], dtype=fd.float64)
W = fd.tensor([[1.0, 2, 0, -1], [0.5, -1, 1, 1], [2, 0, 0, 1]], dtype=fd.float64)
passes: list[Any] = []


def wave(x: Any) -> Any:
    inner = W @ x
    if type(inner) is fd.Tensor and inner.requires_grad:
        inner.register_hook(passes.append)
    return inner.sin() * x[:3]


def close(found: Any, expected: Any) -> None:
    fd.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9, equal_nan=True)


def by_row(f: Any, x: Any) -> Any:
    y, pull = vjp(f, x)
    units = fd.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape)
    rows = [pull(unit)[0] for unit in units]
    found = fd.stack(rows) if rows else fd.zeros(0, dtype=x.dtype)
    return found.reshape(*y.shape, *x.shape)


@pytest.mark.parametrize(("chunk_size", "count"), [(None, 1), (1, 3), (2, 2), (7, 1)])
def test_rows_are_made_in_one_pass_or_one_for_each_chunk(chunk_size: Any, count: int) -> None:
    expected = by_row(wave, X)
    passes.clear()
    close(jacrev(wave, chunk_size=chunk_size)(X), expected)
    assert len(passes) == count


@pytest.mark.parametrize("make", [jacrev, jacfwd])
def test_a_jacobian_by_nothing_has_the_shape_of_one(make: Any) -> None:
    nothing = fd.empty(0, 2)
    assert make(lambda x: x.sum(0))(nothing).shape == (2, 0, 2)
    found, seen = make(lambda x: ((x.sum(0), x), x.shape), has_aux=True)(nothing)
    assert [one.shape for one in found] == [(2, 0, 2), (0, 2, 0, 2)]
    assert seen == (0, 2)


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="`chunk_size` should be greater than 0"):
        jacrev(wave, chunk_size=0)(X)


def test_jacobians_of_jacobians_and_of_batches_are_those_of_each() -> None:
    expected = by_row(wave, X)
    close(jacfwd(wave)(X), expected)
    batch = fd.stack([X, X.flip(0), 2 * X])
    each = fd.stack([by_row(wave, x) for x in batch])
    close(vmap(jacrev(wave))(batch), each)
    close(vmap(jacfwd(wave), 1, 1)(batch.t()), each.movedim(0, 1))
    curved = fd.stack([by_row(lambda x, i=i: by_row(wave, x)[i], X) for i in range(3)])
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd):
            close(outer(inner(wave))(X), curved)
    close(vmap(hessian(lambda x: wave(x).sum()))(batch)[0], curved.sum(0))


def test_a_batch_of_batches_of_cotangents_goes_back_at_once() -> None:
    gs = fd.randn(2, 5, 3, dtype=fd.float64)
    batch = fd.stack([X, -X])

    def pulled(x: Any, gs: Any) -> Any:
        return vmap(lambda g: vjp(wave, x)[1](g)[0])(gs)

    def pulled_by_one(x: Any, gs: Any) -> Any:
        pull = vjp(wave, x)[1]
        return vmap(lambda g: pull(g)[0], 1)(gs)

    expected = fd.stack([fd.stack([vjp(wave, X)[1](g)[0] for g in one]) for one in gs])
    pull = vjp(wave, X)[1]
    passes.clear()
    close(vmap(vmap(lambda g: pull(g)[0]))(gs), expected)
    assert len(passes) == 1
    close(vmap(pulled, (None, 0))(X, gs), expected)
    mixed = fd.stack([vjp(wave, x)[1](g)[0] for x in batch for g in gs[1]]).reshape(2, 5, 4)
    close(vmap(pulled_by_one, (0, None))(batch, gs[1].t()), mixed)


class ByNumPy(fd.autograd.Function):
    """An exponential whose backward computes with NumPy arrays."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return fd.from_numpy(g.detach().numpy() * y.detach().numpy())


def test_what_takes_numbers_on_the_way_back_goes_one_by_one() -> None:
    close(jacrev(ByNumPy.apply)(X), X.exp().diag())
    x = X.clone().requires_grad_()
    (found,) = fd.autograd.grad(ByNumPy.apply(x), x, fd.eye(4).double(), is_grads_batched=True)
    close(found, X.exp().diag())


def test_a_function_that_looks_at_numbers_has_its_columns_made_one_by_one() -> None:
    def looking(x: Any) -> Any:
        return (x * 2 if x.sum() > 0 else x), {"sum": x.sum().item()}

    found, aux = jacfwd(looking, has_aux=True)(X)
    close(found, 2 * fd.eye(4, dtype=fd.float64))
    assert aux == {"sum": pytest.approx(1.8)}
    close(jacfwd(lambda x: x[x.nonzero()[:, 0]])(X), fd.eye(4, dtype=fd.float64))


def test_what_else_a_function_gives_is_that_of_one_call() -> None:
    found, aux = jacfwd(lambda x: (x.sum(), (x * 2, "a")), has_aux=True)(X)
    assert found.tolist() == [1.0] * 4 and aux[1] == "a"
    close(aux[0], X * 2)


def test_draws_in_columns_are_as_vmap_is_told() -> None:
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(lambda x: x * fd.rand(4))(X)
    same = jacfwd(lambda x: x * fd.rand(4), randomness="same")(X)
    assert fd.equal(same, same.diag().diag())


@pytest.mark.parametrize("create_graph", [False, True])
def test_batched_gradients_are_made_in_one_pass_that_frees_or_keeps_the_graph(
    create_graph: bool,
) -> None:
    x, unused = X.clone().requires_grad_(), X.clone().requires_grad_()
    y, gs = wave(x), fd.randn(5, 3, dtype=fd.float64)
    each = [fd.autograd.grad(y, x, g, retain_graph=True)[0] for g in gs]
    passes.clear()
    found, none = fd.autograd.grad(
        y, (x, unused), gs, create_graph=create_graph, allow_unused=True, is_grads_batched=True
    )
    assert len(passes) == 1 and none is None
    close(found.detach(), fd.stack(each))
    assert found.requires_grad is create_graph
    if create_graph:
        (total,) = fd.autograd.grad(y, x, gs.sum(0), create_graph=True)
        expected = fd.autograd.grad(total, x, X, retain_graph=True)
        close(fd.autograd.grad(found.sum(0), x, X), expected)
    else:
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            fd.autograd.grad(y, x, gs[0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_vectorized_jacobians_take_one_pass(create_graph: bool) -> None:
    def both(x: Any, w: Any) -> Any:
        return wave(x) * w, fd.ones(2, dtype=fd.float64), w.sum()

    w = fd.ones(3, dtype=fd.float64)
    expected = jacobian(both, (X, w), create_graph)
    passes.clear()
    found = jacobian(both, (X, w), create_graph, vectorize=True)
    assert len(passes) == 1
    for one, other in zip(found, expected, strict=True):
        close(list(one), list(other))
        assert one[0].requires_grad is other[0].requires_grad


def test_a_vectorized_hessian_is_the_same_and_strict_ones_are_refused() -> None:
    def total(x: Any) -> Any:
        return wave(x).sum()

    close(hessian_of(total, X, vectorize=True), hessian_of(total, X))
    with pytest.raises(RuntimeError, match="`strict=True` and `vectorized=True` are not supported"):
        jacobian(wave, X, strict=True, vectorize=True)


def test_tangents_of_a_view_by_strides_are_those_of_each_call() -> None:
    x, t = fd.randn(3, 2, dtype=fd.float64), fd.randn(4, 2, 3, dtype=fd.float64)

    def push(t: Any) -> Any:
        return jvp(lambda x: x.t().as_strided((2, 2), (1, 2)), (x.t(),), (t,))[1]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        close(vmap(push)(t), fd.stack([push(one) for one in t]))


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
@pytest.mark.parametrize(("name", "one"), DIFFERENTIABLE[::7])
def test_jacobians_are_those_row_by_row(name: str, one: Case) -> None:
    f, arrays = differentiated(one, one.arrays(f"{name} 0"))
    first, *others = as_tensors(arrays, fd.float64)

    def seven(x: Any) -> Any:
        fd.manual_seed(0)
        found = f(x, *others)
        return (fd.view_as_real(found) if found.is_complex() else found).reshape(-1)[:7]

    expected = by_row(seven, first)
    close(jacrev(seven)(first), expected)
    close(jacfwd(seven, randomness="same")(first), expected)
