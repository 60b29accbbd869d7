"""Ops with several results, each of which has a gradient."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd.graph import saved_tensors_hooks
from fastdist.core.errors import DeclarationError
from fastdist.dispatch.op import OPS
from fastdist.dispatch.structured import structured
from fastdist.tensor.tensor import Tensor


def symmetric() -> Tensor:
    return fd.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=fd.float64, requires_grad=True)


def test_all_floating_results_stand_in_the_graph_as_one_node() -> None:
    a = symmetric()
    values, vectors, info = OPS["eigh_parts"].public(a, False)
    assert values.grad_fn.name() == vectors.grad_fn.name() == "LinalgEighBackward0"
    assert values.grad_fn.next_functions == vectors.grad_fn.next_functions
    assert info.grad_fn is None and not info.requires_grad


def test_nothing_is_recorded_without_grad_mode() -> None:
    with fd.no_grad():
        assert not any(part.requires_grad for part in fd.linalg.eigh(symmetric()))
    assert not any(part.requires_grad for part in fd.linalg.eigh(symmetric().detach()))


def test_a_result_that_was_changed_in_place_is_noticed() -> None:
    found = fd.linalg.eigh(symmetric())
    with fd.no_grad():
        found.eigenvectors.mul_(2.0)
    with pytest.raises(RuntimeError, match="LinalgEighBackward0 saved, is at version 1"):
        found.eigenvalues.sum().backward()


def test_a_second_pass_wants_retain_graph() -> None:
    found = fd.linalg.eigh(symmetric())
    found.eigenvalues.sum().backward(retain_graph=True)
    found.eigenvalues.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        found.eigenvalues.sum().backward()


def test_what_is_saved_goes_through_the_hooks_on_saved_tensors() -> None:
    a, seen = symmetric(), []

    def pack(tensor: Tensor) -> Tensor:
        seen.append(tuple(tensor.shape))
        return tensor.detach().clone()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        values, vectors = fd.linalg.eigh(a)
    (values.sum() + vectors.abs().sum()).backward()
    assert seen == [(2,), (2, 2), ()]  # the input is not saved
    assert a.grad is not None and a.grad.isfinite().all()


def test_a_node_does_not_keep_itself_alive() -> None:
    values, vectors = fd.linalg.eigh(symmetric())
    node = weakref.ref(values.grad_fn)
    gc.disable()
    try:
        del values, vectors
        assert node() is None
    finally:
        gc.enable()


def test_a_declaration_names_what_its_derivatives_take() -> None:
    with pytest.raises(DeclarationError, match="several results does not take out="):

        @structured("linalg.none", several=True)
        def none(a: Tensor) -> Tensor:
            """Return nothing."""

    op: Any = OPS["eigh_parts"]
    with pytest.raises(DeclarationError, match="the name of a parameter"):
        op.vjp("input")(lambda out: None)
    with pytest.raises(DeclarationError, match="the name of a parameter"):
        op.jvp(lambda input_t, others: None)
