"""vmap: inputs and outputs, nesting, randomness, derivatives and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from fastdist.nn import functional as F

X, Y = fd.randn(5, 3), fd.randn(5, 3)


def close(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    fd.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# ---- In and out ---------------------------------------------------------------------------------


def test_each_argument_is_sliced_along_its_in_dim() -> None:
    close(vmap(fd.dot)(X, Y), (X * Y).sum(1))
    close(vmap(fd.dot, in_dims=(1, 0))(X.t(), Y), (X * Y).sum(1))
    close(vmap(fd.mv, in_dims=(None, -2))(Y, X), X @ Y.t())


def test_results_are_put_together_along_out_dims() -> None:
    both = vmap(lambda x: (x * 2, [x.sum()]), out_dims=(1, 0))(X)
    close(both[0], (X * 2).t())
    close(both[1], [X.sum(1)])
    assert vmap(lambda x: x, out_dims=-1)(X).shape == (3, 5)
    assert vmap(lambda x: (x, 3), out_dims=(0, None))(X)[1] == 3


def test_trees_of_tuples_lists_and_dicts_are_taken_and_given() -> None:
    def scaled(tree: Any, more: Any) -> Any:
        return {"sum": tree["x"] + more[0], "parts": (tree["scale"] * more[1],)}

    given = ({"x": X, "scale": Y[0]}, [X, Y])
    found = vmap(scaled, in_dims=({"x": 0, "scale": None}, 0))(*given)
    close(found, {"sum": X + X, "parts": (Y[0] * Y,)})


def test_keyword_arguments_go_to_each_call_whole() -> None:
    close(vmap(lambda x, *, by: x @ by)(X, by=Y.t()), X @ Y.t())


def test_a_result_that_depends_on_no_slice_is_repeated() -> None:
    assert vmap(lambda x: fd.zeros(2))(X).shape == (5, 2)


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 7])
def test_chunks_give_what_all_at_once_give(chunk_size: int) -> None:
    def both(x: Any, y: Any) -> Any:
        return (x * y).exp(), x.sum()

    found = vmap(both, in_dims=(0, None), out_dims=(1, 0), chunk_size=chunk_size)(X, Y[0])
    close(found, vmap(both, in_dims=(0, None), out_dims=(1, 0))(X, Y[0]))


def test_levels_nest() -> None:
    outer = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))
    close(outer(X[0], Y[0]), X[0][:, None] * Y[0])
    close(vmap(vmap(lambda a: a.softmax(0)))(fd.stack([X, Y])), fd.stack([X, Y]).softmax(2))
    close(vmap(lambda a: vmap(lambda b: a @ b)(Y))(X), X @ Y.t())


def test_places_and_in_place_changes_may_be_batches() -> None:
    rows = fd.tensor([0, 2, 1, 1, 0])

    def changed(x: Any, i: Any) -> Any:
        y = x * 1
        y[0] = 7.0
        y.add_(x).mul_(2)
        y[1:] = x[:2]
        return y, x[i], Y[i], Y[i, :2]

    found = vmap(changed)(X, rows)
    for n in range(5):
        close([one[n] for one in found], list(changed(X[n], rows[n])))


LIKE: dict[str, Any] = {
    "zeros_like": lambda x: fd.zeros_like(x).add_(x),
    "ones_like": lambda x: fd.ones_like(x, dtype=fd.float64).mul_(x),
    "detach": lambda x: fd.detach(x) * x,
    "empty_like": lambda x: fd.empty_like(x).copy_(x),
    "full_like": lambda x: fd.full_like(fill_value=2, input=x).mul_(x),
    "new_zeros": lambda x: x.new_zeros(2, 3).add_(x),
    "new_zeros without axes": lambda x: x.new_zeros(()).add_(x.sum()),
    "new_ones": lambda x: x.new_ones((3,)).mul_(x),
    "new_empty": lambda x: x.new_empty(size=(3,)).copy_(x),
    "new_empty_strided": lambda x: x.new_empty_strided((2, 3), (1, 2)).copy_(x),
    "new_full": lambda x: x.new_full((3,), 2.0, dtype=fd.float64).mul_(x),
}


STRIDED: dict[str, Any] = {
    "windows": lambda x: x.as_strided((2, 2), (1, 1)),
    "one place many times": lambda x: x.as_strided((3,), (0,)),
    "from a place of its memory": lambda x: fd.zeros_like(x).add_(x).as_strided((2,), (1,), 1),
    "written into": lambda x: fd.zeros_like(x).as_strided((2,), (2,)).copy_(x[:2]),
    "a view's": lambda x: x[1:].as_strided((2, 2), (0, 1)),
    "nothing": lambda x: x.as_strided((0, 2), (1, 1)),
}


@pytest.mark.parametrize("call", STRIDED.values(), ids=STRIDED)
def test_views_by_strides_are_those_of_each_call(call: Any) -> None:
    expected = fd.stack([call(x.clone()) for x in X])
    close(vmap(call)(X), expected)
    if not expected.numel():
        return
    close(vmap(vmap(call))(fd.stack([X, X])), fd.stack([expected, expected]))
    loss = grad(lambda x: (call(x) ** 2).sum())
    close(vmap(loss)(X), fd.stack([loss(x.clone()) for x in X]))


def test_views_by_strides_see_nothing_of_other_calls() -> None:
    # In memory, the first elements of all calls' tensors come first, then their second elements.
    found = vmap(lambda x: x.as_strided((2,), (1,)), in_dims=1)(fd.arange(6.0).reshape(3, 2))
    assert found.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    for wrong in (
        lambda x: x.as_strided((4,), (1,)), lambda x: x.as_strided((2, 2), (1, 1), 1),
        lambda x: x.as_strided((1,), (1,), 3),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
            vmap(wrong)(X)
    with pytest.raises(RuntimeError, match="mismatch in length of strides and shape"):
        vmap(lambda x: x.as_strided((2, 2), (1,)))(X)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("call", LIKE.values(), ids=LIKE)
def test_what_is_made_like_a_batch_is_one_to_be_written_into(call: Any) -> None:
    close(vmap(call)(X), fd.stack([call(x) for x in X]))
    close(vmap(call, in_dims=1)(X.t()), fd.stack([call(x) for x in X]))
    nested = vmap(vmap(call))(fd.stack([X, Y]))
    close(nested, fd.stack([fd.stack([call(x) for x in rows]) for rows in (X, Y)]))
    expected = grad(lambda xs: sum((call(x).double() ** 2).sum() for x in xs))(X)
    close(vmap(grad(lambda x: (call(x).double() ** 2).sum()))(X), expected)


PLACES = fd.tensor([0, 2])
CHANGES: dict[str, Any] = {
    "scatter_": lambda x: x.scatter_(0, PLACES, 1.0),
    "scatter_ of a batch": lambda x: x.scatter_(0, PLACES, x[:2] * 2),
    "scatter_add_": lambda x: x.scatter_add_(0, PLACES, fd.ones(2)),
    "index_add_": lambda x: x.index_add_(0, PLACES, fd.ones(2)),
    "index_fill_": lambda x: x.index_fill_(0, PLACES, 2.0),
    "clamp_": lambda x: x.clamp_(-0.5, 0.5),
    "cumsum_": lambda x: x.cumsum_(0),
    "unsqueeze_": lambda x: x.unsqueeze_(0).mul_(2),
    "t_": lambda x: x.outer(x + 1).t_(),
    "triu_": lambda x: x.outer(x).triu_(),
    "fill_diagonal_": lambda x: x.outer(x).fill_diagonal_(3.0),
}


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_methods_that_write_their_result_back_write_it_into_a_batch(change: Any) -> None:
    def call(x: Any) -> Any:
        return change(x * x)

    expected = fd.stack([call(x) for x in X])
    close(vmap(call)(X), expected)
    close(vmap(vmap(call))(fd.stack([X, X])), fd.stack([expected, expected]))
    loss = grad(lambda x: (call(x) ** 2).sum())
    close(vmap(loss)(X), fd.stack([loss(x) for x in X]))
    if change in (CHANGES["unsqueeze_"], CHANGES["t_"]):
        return  # these ops reject a tensor with a tangent

    def tangent(x: Any) -> Any:
        return jvp(call, (x,), (fd.ones(3),))[1]

    close(vmap(tangent)(X), fd.stack([tangent(x) for x in X]))


def test_a_batch_that_a_method_writes_into_is_the_one_that_was_given() -> None:
    value = X.clone()
    vmap(lambda x: x.clamp_(0, 1))(value)
    close(value, X.clamp(0, 1))


@pytest.mark.parametrize("call", [fd.add, lambda a, b, out: fd.cat([a, b], out=out)])
def test_an_out_that_is_a_batch_is_refused_in_words(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"vmap: \w+\(..., out=...\) has no batching rule"):
        vmap(lambda x: call(fd.ones(3), fd.ones(3), out=fd.empty_like(x)))(X)


def test_dtypes_are_those_of_each_call() -> None:
    halves, numbers = fd.ones(4, dtype=fd.float64), fd.ones(4, 3)
    assert vmap(lambda a, b: a * b)(halves, numbers).dtype is fd.float32
    assert vmap(lambda a: a > 1)(X).dtype is fd.bool


# ---- Random numbers -----------------------------------------------------------------------------


def test_each_call_draws_its_own_numbers_or_all_the_same() -> None:
    different = vmap(lambda x: x * 0 + fd.rand(3), randomness="different")(X)
    assert len({tuple(row) for row in different.tolist()}) == 5
    same = vmap(lambda x: x * 0 + fd.rand(3) + fd.rand_like(x), randomness="same")(X)
    close(same, same[:1].expand(5, 3), 0.0)


def test_dropout_draws_as_it_is_told() -> None:
    ones = fd.ones(4, 64)
    different = vmap(F.dropout, randomness="different")(ones)
    assert len({tuple(row) for row in different.tolist()}) == 4
    same = vmap(F.dropout, randomness="same")(ones)
    close(same, same[:1].expand(4, 64), 0.0)


@pytest.mark.parametrize("draw", [lambda x: fd.rand(2), F.dropout, lambda x: (x * 1).normal_()])
def test_a_draw_without_word_of_it_is_an_error(draw: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
        vmap(draw)(X)


# ---- Derivatives --------------------------------------------------------------------------------


def test_gradients_flow_through_a_batch() -> None:
    x, w = X.clone().requires_grad_(), Y[0].clone().requires_grad_()
    vmap(lambda a: (a * w).tanh().sum())(x).sum().backward()
    xs, ws = X.clone().requires_grad_(), Y[0].clone().requires_grad_()
    (xs * ws).tanh().sum().backward()
    close((x.grad, w.grad), (xs.grad, ws.grad))


def test_gradients_of_each_sample_are_those_of_a_loop() -> None:
    model = fd.nn.Sequential(
        fd.nn.Linear(3, 8), fd.nn.LayerNorm(8), fd.nn.Tanh(), fd.nn.Linear(8, 4)
    )
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    targets = fd.tensor([0, 3, 1, 2, 3])

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        prediction = functional_call(model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(prediction, target.unsqueeze(0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, X, targets)
    for i in range(5):
        expected = grad(loss)(parameters, X[i], targets[i])
        close({name: g[i] for name, g in found.items()}, expected, 1e-5)


def wave(x: Any) -> Any:
    return (x * x).sin().sum() * x[0]


@pytest.mark.parametrize(
    "transform",
    [grad, jacrev, jacfwd, hessian, grad_and_value, lambda f: grad(lambda x: grad(f)(x).sum())],
)
def test_derivatives_inside_of_a_batch_are_those_of_each_call(transform: Any) -> None:
    inner = transform(wave)
    found = vmap(inner)(X)
    for i in range(5):
        expected = inner(X[i])
        part = [one[i] for one in found] if isinstance(found, tuple) else found[i]
        close(part, list(expected) if isinstance(expected, tuple) else expected, 1e-5)


def test_products_with_jacobians_run_on_batches() -> None:
    found = vmap(lambda x, t: jvp(wave, (x,), (t,))[1])(X, Y)
    close(found, fd.stack([jvp(wave, (x,), (t,))[1] for x, t in zip(X, Y)]), 1e-5)
    pulled = vmap(lambda x: vjp(wave, x)[1](fd.ones(()))[0])(X)
    close(pulled, fd.stack([grad(wave)(x) for x in X]), 1e-5)


def test_a_gradient_of_a_batch_of_gradients_is_a_second_derivative() -> None:
    def total(x: Any) -> Any:
        return vmap(grad(wave))(x).sum()

    expected = fd.stack([hessian(wave)(x).sum(0) for x in X])
    close(grad(total)(X), expected, 1e-4)


def test_a_jacobian_by_vmap_is_jacrev_s() -> None:
    _, pull = vjp(lambda x: (x * x).cumsum(0), X[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(lambda row: pull(row)[0])(fd.eye(3))
    close(found, jacrev(lambda x: (x * x).cumsum(0))(X[0]))


def test_an_op_s_integer_stays_one_in_the_derivatives_of_each_call() -> None:
    def of_one(x: Any) -> Any:
        return (fd.special.polygamma(1, x.abs() + 1) ** 2).sum()

    x = X.to(fd.float64)
    with_graph = fd.stack([grad(of_one)(row) for row in x])
    close(vmap(grad(of_one))(x), with_graph)
    tangents = vmap(lambda row: jvp(of_one, (row,), (fd.ones_like(row),))[1])(x)
    close(tangents, with_graph.sum(1))
    close(vmap(grad(lambda row: grad(of_one)(row).sum()))(x)[0], hessian(of_one)(x[0]).sum(0))


def test_tensors_of_a_batch_show_what_they_are() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append((x.shape, x.ndim, x.numel(), len(x), x.requires_grad, repr(x)[:28]))
        return x

    vmap(look)(X)
    assert seen == [((3,), 1, 3, 3, False, "BatchedTensor(lvl=1, bdim=0,")]


def test_nothing_is_batched_after_an_error() -> None:
    from fastdist.graph.modes import modes
    from fastdist.interpreters.batched_tensor import levels

    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 // 0)(X)
    assert (levels.depth, modes.tracers, modes.special) == (0, 0, 0)


def test_a_trace_of_a_batch_shows_the_ops_of_all_calls_at_once() -> None:
    trace = fd.trace(vmap(lambda a: (a * 2).sum()))(X)
    assert [call.op for call in trace] == ["mul", "sum"]
    close(trace(Y), (Y * 2).sum(1))


# ---- Errors and slow cases ----------------------------------------------------------------------


def add(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: vmap(add, in_dims="a")(X), ValueError, r"expected `in_dims` to be int or a"),  # type: ignore[arg-type]
        (vmap(add), ValueError, r"vmap\(add\)\(<inputs>\): got no inputs"),
        (
            lambda: vmap(add, (0,))(X, X),
            ValueError,
            r"in_dims is not compatible with the structure",
        ),
        (lambda: vmap(add, (0, 1.5))(X, X), ValueError, r"Got in_dim=1.5 for an input but in_dim"),
        (lambda: vmap(add)(X, 2), ValueError, r"the input is of type <class 'int'>. We cannot"),
        (lambda: vmap(add, 2)(X, X), ValueError, r"expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda: vmap(add, (0, 1))(X, X), ValueError, r"same size in the mapped dimension, got"),
        (lambda: vmap(add, (None, None))(X, X), ValueError, r"at least one Tensor to vmap over"),
        (lambda: vmap(lambda x: 3)(X), ValueError, r"must only return Tensors, got type"),
        (lambda: vmap(add, out_dims=None)(X, X), ValueError, r"can not return a BatchedTensor"),
        (lambda: vmap(add, out_dims=(0, 0))(X, X), ValueError, r"out_dims is not compatible"),
        (lambda: vmap(add, randomness="x"), RuntimeError, r"Only allowed values for randomness"),
        (lambda: vmap(add, chunk_size=0), ValueError, r"chunk_size should be None or greater"),
        (lambda: vmap(lambda x: x.sum().item())(X), RuntimeError, r"you're calling .item\(\)"),
        (lambda: vmap(lambda x: x if x.sum() > 0 else -x)(X), RuntimeError, r"data-dependent"),
        (lambda: vmap(lambda x: x.nonzero())(X), RuntimeError, r"dynamic shape.*aten::nonzero"),
        (lambda: vmap(Y[0].add_)(X), RuntimeError, r"inplace arithmetic\(add_\) is"),
        (lambda: vmap(lambda x: fd.cat([x, x], out=fd.empty(0)))(X), RuntimeError, r"cat\(.*out="),
        (lambda: vmap(lambda x: fd.mul(x, x, out=fd.empty(0)))(X), RuntimeError, r"mul\(.*out="),
        (lambda: vmap(lambda x: x.requires_grad_())(X), RuntimeError, r"attempting to call Tensor"),
        (lambda: vmap(lambda x: x.numpy())(X), RuntimeError, r"no batching rule reads the numbers"),
        (lambda: vmap(lambda x: x.unsqueeze(3))(X), IndexError, r"range of \[-2, 1\], but got 3"),
        # The axis of the batch must not be used as an axis that the calls' tensors do not have.
        (
            lambda: vmap(lambda x: x.squeeze(1))(X[0]),
            IndexError,
            r"squeeze of a tensor with 0 axes",
        ),
        (lambda: vmap(lambda x: x.roll(1, 1))(X[0]), IndexError, r"roll of a tensor with 0 axes"),
        (
            lambda: vmap(lambda x: x.unfold(-2, 1, 1))(X[0]),
            IndexError,
            r"unfold of a tensor with 0",
        ),
        (lambda: vmap(lambda x: x.tril())(X), RuntimeError, r"tril: .* at least 2 dimensions"),
        (lambda: vmap(lambda x: x @ x)(X[0]), RuntimeError, r"at least 1D, but they are 0D and 0D"),
    ],
)
def test_mistakes_are_told_in_pytorch_s_words(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("use", [lambda x: x + 1, lambda x: x.sin(), lambda x: x @ x])
def test_a_tensor_that_escaped_from_vmap_is_told_of_as_such(use: Any) -> None:
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x * 2)(X)
    with pytest.raises(RuntimeError, match="escaped from inside a function being vmapped"):
        use(kept[0])


def test_what_has_no_rule_is_named_and_runs_one_call_after_the_other() -> None:
    numbers = fd.tensor([[[0.0], [1.0], [1.0]], [[2.0], [2.0], [4.0]]])
    text = "not yet implemented the batching rule for aten::histogramdd"
    with pytest.warns(UserWarning, match=text):
        found = vmap(lambda row: fd.histogramdd(row, 2).hist)(numbers)
    assert found.tolist() == [[1.0, 2.0], [2.0, 1.0]]


ADDED: dict[str, Any] = {
    "everything": (lambda x, i, s: x.index_add(0, i, s, alpha=2), (0, 0, 0)),
    "along another axis": (lambda x, i, s: x.t().index_add(1, i, s.t()), (0, 0, 0)),
    "to one tensor": (lambda x, i, s: x.index_add(0, i, s), (None, 0, 0)),
    "at the same places": (lambda x, i, s: x.index_add(0, i, s), (0, None, 0)),
    "the same": (lambda x, i, s: x.index_add(0, i.int(), s), (0, 0, None)),
    "in place": (lambda x, i, s: (x * 1).index_add_(0, i, s), (0, 0, 0)),
    "the gradient of rows": (
        grad(lambda x, i, s: (fd.nn.functional.embedding(i, x) ** 2 * s).sum()), (None, 0, 0),
    ),
    "the gradient of what is added": (
        grad(lambda s, i, x: (x.index_add(0, i, s) ** 3).sum()), (0, 0, None),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("name", ADDED)
def test_a_batch_adds_slices_in_one_call(name: str) -> None:
    call, dims = ADDED[name]
    x, s = fd.randn(2, 4, 3), fd.randn(2, 3, 3)
    i = fd.tensor([[0, 3, 0], [1, 1, 2]])
    given = (s, i, x) if "what is added" in name else (x, i, s)
    parts = [one if dim is not None else one[0] for one, dim in zip(given, dims, strict=True)]
    each = [
        [one[n] if dim is not None else one for one, dim in zip(parts, dims, strict=True)]
        for n in range(2)
    ]
    close(vmap(call, in_dims=dims)(*parts), fd.stack([call(*one) for one in each]))


@pytest.mark.parametrize("place", [-1, 4])
def test_a_place_outside_of_a_call_s_axis_is_none_of_another_s(place: int) -> None:
    x, s = fd.zeros(3, 4), fd.ones(3, 1)
    with pytest.raises(RuntimeError, match="out of bounds"):
        vmap(lambda x, s: x.index_add(0, fd.tensor([place]), s))(x, s)
    with pytest.raises(RuntimeError, match="out of bounds"):
        vmap(lambda x, i, s: x.index_add(0, i, s))(x, fd.tensor([[0], [place], [0]]), s)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("dims", [(), (0,), (0, -1)])
def test_flip_takes_a_list_of_dims(dims: Any) -> None:
    x = fd.randn(3, 2, 4)
    close(vmap(lambda x: x.flip(dims))(x), fd.stack([one.flip(dims) for one in x]))


@pytest.mark.filterwarnings("error:There is a performance drop")
def test_one_mask_picks_as_much_of_each() -> None:
    x, mask = fd.randn(3, 2, 4), fd.randn(2, 4) > 0

    def picked(x: Any) -> Any:
        return fd.masked_select(x, mask)

    close(vmap(picked)(x), fd.stack([picked(one) for one in x]))
    close(
        vmap(grad(lambda x: (picked(x) ** 3).sum()))(x),
        fd.stack([grad(lambda x: (picked(x) ** 3).sum())(one) for one in x]),
    )
    with pytest.raises(RuntimeError, match=r"dynamic shape.*aten::masked_select"):
        vmap(x[0].masked_select)(x > 0)
