"""Every public function supports sparse tensors or raises a clear error; none densifies them."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F
from tests.properties import Properties

PLACES = [[0, 2, 0], [1, 0, 1]]
# Not called: functions that change settings, wait for processes, or take code.
_NOT_HERE = {
    "clear_autocast_cache", "compile", "get_autocast_dtype", "install_as_torch", "load",
    "manual_seed", "save", "seed", "use_deterministic_algorithms",
}  # fmt: skip
_SETTINGS = ("set_", "autocast_")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room, prefix in ((fd, ""), (F, "F."), (fd.sparse, "sparse."), (fd.Tensor, "Tensor.")):
        for name in room.__all__ if room is fd.sparse else dir(room):
            found = getattr(room, name)
            is_one = callable(found) and not inspect.isclass(found) and not name.startswith("_")
            is_setting = room is fd and name.startswith(_SETTINGS)
            if is_one and not is_setting and name not in _NOT_HERE:
                yield f"{prefix}{name}", found


def entries() -> fd.Tensor:
    return fd.sparse_coo_tensor(PLACES, fd.tensor([1.0, 2.0, 3.5]), (3, 3))


def calls() -> list[tuple[Any, ...]]:
    s, d = entries, fd.arange(9.0).reshape(3, 3)
    return [
        (s(),), (s().coalesce(),), (s(), 0), (s(), 2.0), (s(), 0, 1), (s(), s()), (s(), d),
        (d, s()), (s(), d[0]), (d, d, s()), (s(), d, d), ([s(), s()],), (s(), 0, fd.tensor([0, 2])),
        (s(), (3, 3)),
    ]  # fmt: skip


FUNCTIONS = dict(functions())
# Python's messages for attributes that lists, numbers or tuples do not have: allowed errors.
OTHER_MISTAKES = re.compile("'(list|int|float|tuple)' object|attribute 'axes'")
MISTAKES = (AttributeError, AssertionError, KeyError, UnboundLocalError, RecursionError)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", sorted({name.rpartition(".")[2] for name in FUNCTIONS}))
def test_no_function_stumbles_over_a_sparse_tensor(name: str, properties: Properties) -> None:
    for prefix in ("", "F.", "sparse.", "Tensor."):
        if (function := FUNCTIONS.get(prefix + name)) is not None:
            with properties(prefix + name):
                check(function)


def check(function: Callable[..., Any]) -> None:
    errors = [error for given in calls() if (error := error_of(function, given)) is not None]
    texts = [f"{type(error).__name__}: {error}" for error in errors]
    assert not [text for text in texts if "Coo" in text or "single memory" in text]
    # Errors because a sparse tensor was passed in place of a list are allowed.
    mistakes = [error for error in errors if isinstance(error, MISTAKES)]
    assert not [error for error in mistakes if not OTHER_MISTAKES.search(str(error))]


def error_of(function: Callable[..., Any], given: tuple[Any, ...]) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*given)
        except Exception as error:
            return error
    return None


DENSE_ALONE = """rand_like randn_like ones_like F.dropout bernoulli exp cos log sigmoid softmax
    F.gelu prod mean amax cumsum argmax sort topk gather flip roll tril diag Tensor.set_ Tensor.new
    Tensor.exponential_ Tensor.fill_ Tensor.normal_ Tensor.uniform_ Tensor.new_ones Tensor.flatten
    Tensor.share_memory_ F.conv1d F.layer_norm F.mse_loss F.cross_entropy where masked_select
"""


@pytest.mark.parametrize("name", DENSE_ALONE.split())
def test_what_would_have_to_be_dense_is_refused_by_name(name: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "softmax": (0,), "topk": (1,), "cumsum": (0,), "roll": (1,), "flip": (0,),
        "gather": (0, fd.tensor([[0]])), "Tensor.fill_": (1.0,), "Tensor.new_ones": (2,),
        "F.conv1d": (fd.ones(1, 3, 1),), "F.layer_norm": ((3,),), "Tensor.flatten": (),
        "F.mse_loss": (fd.ones(3, 3),), "F.cross_entropy": (fd.tensor([0, 1, 2]),),
        "where": (entries(), entries()), "masked_select": (fd.ones(3, 3) > 0,),
    }  # fmt: skip
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match=r"parse"):
        FUNCTIONS[name](entries(), *arguments.get(name, ()))


@pytest.mark.parametrize("name", ["zeros_like", "empty_like"])
def test_zeros_like_a_sparse_tensor_have_no_entries(name: str) -> None:
    given = fd.sparse_coo_tensor([[0, 2]], fd.ones(2, 3), (4, 3))
    found = FUNCTIONS[name](given, dtype=fd.float64)
    assert found.is_sparse and found._nnz() == 0 and found.dtype is fd.float64
    assert (found.sparse_dim(), found.dense_dim(), tuple(found.shape)) == (1, 1, (4, 3))
    assert not fd.zeros_like(given, layout=fd.strided).is_sparse
    assert given.new_zeros(2, 2).is_sparse and given.new_empty((2,)).is_sparse


@pytest.mark.parametrize("name", ["sin", "nan_to_num", "round", "sgn", "trunc", "relu", "rad2deg"])
def test_in_place_functions_of_0_that_are_0_change_the_entries(name: str) -> None:
    given = entries().coalesce()
    expected = getattr(given.to_dense(), name)()
    changed = getattr(given, f"{name}_")()
    assert changed is given and given.is_sparse
    assert fd.equal(given.to_dense(), expected)


def test_an_in_place_function_of_a_sum_is_refused() -> None:
    with pytest.raises(RuntimeError, match="sin_ requires coalesced input"):
        entries().sin_()


def test_a_linear_layer_takes_sparse_inputs_and_weights() -> None:
    x, w, bias = entries(), fd.arange(6.0).reshape(2, 3), fd.tensor([1.0, -1.0])
    assert fd.equal(F.linear(x, w, bias), F.linear(x.to_dense(), w, bias))
    assert fd.equal(F.linear(w, x), F.linear(w, x.to_dense()))


def test_a_mask_gives_a_place_as_often_as_it_names_it() -> None:
    dense = fd.arange(9.0).reshape(3, 3).requires_grad_()
    found = dense.sparse_mask(entries())
    assert found._values().tolist() == [1, 6, 1] and not found.is_coalesced()
    found.to_dense().sum().backward()
    assert dense.grad is not None and dense.grad[0].tolist() == [0, 2, 0]


def test_the_type_says_that_it_is_sparse() -> None:
    assert entries().type() == "fastdist.sparse.FloatTensor"
