"""`fastdist.func`: values, pytrees, nesting, and results that have a graph."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import func, nn
from fastdist.tensor import pytree
from tests.properties import Properties

X = fd.tensor([1.0, 2.0, 3.0], dtype=fd.float64)
Y = fd.tensor([4.0, 5.0, 6.0], dtype=fd.float64)


def cubes(x: Any) -> Any:
    return (x**3).sum()


def test_gradients_of_gradients() -> None:
    assert func.grad(cubes)(X).tolist() == [3.0, 12.0, 27.0]
    assert func.grad(lambda x: func.grad(cubes)(x).sum())(X).tolist() == [6.0, 12.0, 18.0]
    assert not func.grad(cubes)(X).requires_grad and not X.requires_grad


class Pair:
    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


def test_containers_that_pytree_was_told_of_are_taken_and_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pytree, "SUPPORTED_NODES", dict(pytree.SUPPORTED_NODES))
    pytree.register_pytree_node(
        Pair, lambda pair: ([pair.first, pair.second], None), lambda parts, _: Pair(*parts)
    )
    found: Any = func.grad(lambda pair: pair.first * pair.second)(
        Pair(fd.tensor(2.0), fd.tensor(3.0))
    )
    assert (found.first.item(), found.second.item()) == (3.0, 2.0)
    for chunk_size in (None, 2):
        swap = func.vmap(lambda p: Pair(p.second, p.first.sum()), chunk_size=chunk_size)
        pair = swap(Pair(fd.ones(3, 2), fd.arange(3)))
        assert (pair.first.tolist(), pair.second.tolist()) == ([0, 1, 2], [2.0, 2.0, 2.0])


def test_arguments_are_chosen_by_number_and_may_be_trees() -> None:
    both = func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(X, Y)
    assert isinstance(both, tuple) and both[0].equal(Y) and both[1].equal(X)
    tree = func.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": X, "b": [Y]})
    assert tree["a"].equal(Y) and tree["b"][0].equal(X)
    with pytest.raises(RuntimeError, match="Got argnum=2, but only 1 positional inputs"):
        func.grad(cubes, argnums=2)(X)


def test_what_else_the_function_returned_comes_along() -> None:
    found, (value, aux) = func.grad_and_value(lambda x: (cubes(x), {"k": x}), has_aux=True)(X)
    assert found.tolist() == [3.0, 12.0, 27.0] and value.item() == 36.0
    assert aux["k"].equal(X) and not aux["k"].requires_grad
    assert func.grad(lambda x: (cubes(x), 7), has_aux=True)(X)[1] == 7
    with pytest.raises(RuntimeError, match="output of function f should be a tuple"):
        func.grad(cubes, has_aux=True)(X)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(RuntimeError, match="to return a scalar Tensor, got tensor with 1 dims"):
        func.grad(lambda x: x)(X)
    with pytest.raises(RuntimeError, match="to return a Tensor, got"):
        func.grad(lambda x: 3)(X)


def test_a_result_keeps_the_graph_of_what_required_grad_before() -> None:
    w = fd.ones(3, dtype=fd.float64, requires_grad=True)
    func.grad(lambda x: (x**2 * w).sum())(X).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0] and X.grad is None
    twice = func.grad(cubes)(w)
    twice.sum().backward()
    assert w.grad.tolist() == [8.0, 10.0, 12.0]
    with fd.no_grad():
        assert not func.grad(cubes)(w).requires_grad


def test_products_with_jacobians() -> None:
    value, pull = func.vjp(lambda a, b: (a * b, a + b), X, Y)
    assert value[0].equal(X * Y)
    for _ in range(2):  # the returned function can be called repeatedly
        to_a, to_b = pull((Y, X))
        assert to_a.equal(Y * Y + X) and to_b.equal(X * Y + X)
    with pytest.raises(RuntimeError, match="Expected pytree structure of cotangents"):
        pull(Y)
    pushed: Any
    value, pushed = func.jvp(lambda a, b: (a * b, a), (X, Y), (Y, X))
    assert pushed[0].equal(Y * Y + X * X) and pushed[1].equal(Y)
    with pytest.raises(RuntimeError, match="same python structure"):
        func.jvp(cubes, (X,), (X, Y))
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        func.jvp(lambda x: Y, (X,), (X,), strict=True)


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_whole_jacobians(jacobian: Any) -> None:
    found = jacobian(lambda a, b: {"p": a * b, "t": (a[:2],)}, argnums=(0, 1))(X, Y)
    assert found["p"][0].equal(fd.diag(Y)) and found["p"][1].equal(fd.diag(X))
    assert found["t"][0][0].shape == (2, 3) and not found["t"][0][1].any()
    whole, aux = jacobian(lambda x: (2 * x, x), has_aux=True)(X)
    assert whole.equal(2 * fd.eye(3, dtype=fd.float64)) and aux.equal(X)
    assert jacobian(lambda x: (x, 7), has_aux=True)(X)[1] == 7
    assert jacobian(jacobian(cubes))(X).equal(fd.diag(6 * X))


@pytest.mark.parametrize("result", [3, None, (X, 3.0), {"a": X, "b": "c"}, (), []])
@pytest.mark.parametrize("x", [X, X[:0]])
def test_functions_whose_results_are_no_tensors_have_no_derivatives(
    x: Any, result: Any, properties: Properties
) -> None:
    def f(x: Any) -> Any:
        return result

    calls: dict[str, Any] = {
        "jacrev": lambda: func.jacrev(f)(x),
        "jacfwd": lambda: func.jacfwd(f)(x),
        "hessian": lambda: func.hessian(f)(x),
        "vjp": lambda: func.vjp(f, x),
        "jvp": lambda: func.jvp(f, (x,), (x,)),
    }
    for name, call in calls.items():
        with properties(name), pytest.raises(RuntimeError, match="expected f to return"):
            call()


def test_second_derivatives() -> None:
    assert func.hessian(cubes)(X).equal(fd.diag(6 * X))
    blocks = func.hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(X, Y)
    assert blocks[0][1].equal(fd.diag(2 * Y)) and blocks[1][1].equal(fd.diag(2 * X))
    pushed = func.grad(lambda x: func.jvp(lambda b: b**3, (x,), (Y,))[1].sum())(X)
    assert pushed.equal(6 * X * Y)


def test_a_model_is_a_function_of_its_parameters() -> None:
    model = nn.Linear(3, 2).double()
    given = {name: fd.ones(p.shape, dtype=fd.float64) for name, p in model.named_parameters()}
    found = func.grad(lambda p: func.functional_call(model, p, (X,)).sum())(given)
    assert found["weight"].tolist() == [[1.0, 2.0, 3.0]] * 2 and found["bias"].tolist() == [1, 1]


def test_states_of_like_models_are_stacked() -> None:
    models = [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    parameters, buffers = func.stack_module_state(models)
    assert parameters["weight"].shape == (2, 2) and parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad and not buffers["running_mean"].requires_grad
    for wrong, text in (
        ([], "at least one model, got 0"),
        ([models[0], nn.BatchNorm1d(2).eval()], "same training/eval mode"),
        ([models[0], nn.Linear(1, 1)], "of the same class"),
    ):
        with pytest.raises(RuntimeError, match=text):
            func.stack_module_state(wrong)


def test_linearize_gives_the_value_and_its_slopes() -> None:
    value, pushed = func.linearize(lambda x, y: {"both": x * y, "one": x.sin()}, X, Y)
    assert value["both"].equal(X * Y)
    found = pushed(fd.ones_like(X), 2 * fd.ones_like(Y))
    assert found["both"].equal(Y + 2 * X) and found["one"].equal(X.cos())
    with pytest.raises(RuntimeError, match="same argspec as the primals"):
        pushed(X)


def test_batch_norms_forget_their_running_numbers() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)).eval()
    assert func.replace_all_batch_norm_modules_(model) is model
    norm = model[0]
    assert norm.running_mean is norm.running_var is norm.num_batches_tracked is None
    assert not norm.track_running_stats and model(fd.ones(2, 3)).shape == (2, 1)


@pytest.mark.parametrize("given", [None, "a", 1.0, [1.0], {"a": fd.ones(()), "b": None}])
def test_what_is_differentiated_are_tensors(given: Any) -> None:
    for transform in (func.grad, func.jacrev):
        with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor, got"):
            transform(lambda x: x)(given)
    with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor, got"):
        func.vjp(lambda x: x, given)
    with pytest.raises(RuntimeError, match="Expected primals to only contain Tensors, got"):
        func.jvp(lambda x: x, (given,), (given,))
    with pytest.raises(RuntimeError, match="Expected tangents to only contain Tensors, got"):
        func.jvp(lambda x: x, (fd.ones(()),), (given,))


@pytest.mark.parametrize("name", ["vmap of grad", "grad of vmap", "jacfwd", "jacrev", "hessian"])
def test_a_result_that_is_detached_in_place_passes_no_derivative(name: str) -> None:
    def taken(detach: Any) -> Any:
        def one(x: Any) -> Any:
            y = x.sin()
            return (detach(y) * x * x).sum()

        many = fd.tensor([[0.5, 1.0], [2.0, -1.0]], dtype=fd.float64)
        if name == "vmap of grad":
            return fd.vmap(fd.func.grad(one))(many)
        if name == "grad of vmap":
            return fd.func.grad(lambda rows: fd.vmap(one)(rows).sum())(many)
        return getattr(fd.func, name)(one)(many[0])

    found, expected = taken(lambda y: y.detach_()), taken(lambda y: y.detach())
    assert found.tolist() == expected.tolist()
    assert taken(fd.detach_).tolist() == expected.tolist()
