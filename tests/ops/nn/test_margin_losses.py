"""Margin and likelihood losses, and similarities: values, derivatives, devices, edges, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn import functional as F
from tests.ops.cases import Case, as_tensors
from tests.ops.differences import check_first_order, check_second_order, generator
from tests.ops.nn.margin_cases import LOSSES
from tests.ops.test_table import differentiated

ALL = [
    pytest.param(n, one, id=f"{n}-{i}") for n, all in LOSSES.items() for i, one in enumerate(all)
]
every_case = pytest.mark.parametrize(("name", "one"), ALL)


@pytest.mark.one_in(5)
@every_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_is_numpy_s(name: str, one: Case, dtype: str) -> None:
    arrays = one.arrays(f"{name} value")
    found = one.ours(*as_tensors(arrays, getattr(fd, dtype))).numpy()
    tolerance = 1e-5 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(found, one.numpys(*arrays), rtol=tolerance, atol=tolerance)


@pytest.mark.one_in(4)
@every_case
def test_derivatives_are_those_of_differences(name: str, one: Case) -> None:
    if one.differentiable:
        f, arrays = differentiated(one, one.arrays(f"{name} first"))
        check_first_order(f, arrays, generator(f"{name} direction"))
        check_second_order(f, arrays, generator(f"{name} second direction"))


@every_case
def test_a_device_computes_what_the_cpu_does(name: str, one: Case) -> None:
    inputs = as_tensors(one.arrays(f"{name} device"), fd.float64)
    found = one.ours(*[tensor.to("sim:0") for tensor in inputs])
    assert str(found.device) == "sim:0"
    np.testing.assert_allclose(found.cpu().numpy(), one.ours(*inputs).numpy(), rtol=1e-12)


def multilabel(x: fd.Tensor, classes: list[int]) -> fd.Tensor:
    return F.multilabel_margin_loss(x, fd.tensor([classes] * len(x)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: F.margin_ranking_loss(x, x[0], x),
            "margin_ranking_loss : All input tensors should have same dimension",
        ),
        (lambda x: F.multi_margin_loss(x, fd.tensor([0]), 1), "multi_margin_loss: target tensor"),
        (lambda x: F.multi_margin_loss(x, fd.tensor([0, 1]), 3), "only p == 1 and p == 2"),
        (lambda x: F.multi_margin_loss(x, fd.tensor([0, 1]), weight=x), "weight must be one-dim"),
        (lambda x: F.multi_margin_loss(x[:, :0], fd.tensor([0, 1])), "Expected non-empty vector"),
        (lambda x: F.multilabel_margin_loss(x, fd.tensor([0])), "inconsistent target size"),
        (lambda x: F.multi_margin_loss(x, fd.tensor([0, 3])), "target out of range: got 3"),
        (lambda x: F.multi_margin_loss(x, fd.tensor([0, -1])), "target out of range: got -1"),
        (lambda x: multilabel(x, [0, 3, -1]), "argument #2 'target' is out of range: got 3"),
        (lambda x: multilabel(x, [0, -1, 9]), "argument #2 'target' is out of range: got 9"),
        (lambda x: multilabel(x, [0, -1, -2]), "argument #2 'target' is out of range: got -2"),
        (lambda x: multilabel(x, [-3, 0, 0]), "argument #2 'target' is out of range: got -3"),
        (
            lambda x: F.multilabel_margin_loss(x, fd.zeros(2, 3).int()),
            "expected scalar type Long but found Int",
        ),
        (lambda x: F.cosine_embedding_loss(x, x, x), "0D or 1D target tensor expected"),
        (
            lambda x: F.cosine_embedding_loss(x, x[0], x[:, 0]),
            "1D target tensor expects 2D input tensors, but found inputs with sizes",
        ),
        (lambda x: F.triplet_margin_loss(x, x, x, -1.0), "margin must be greater than 0, got -1"),
        (lambda x: F.triplet_margin_loss(x, x, x[0]), "same number of dimensions, but got: anchor"),
        (lambda x: F.gaussian_nll_loss(x, x, x[0]), "var is of incorrect size"),
        (lambda x: F.gaussian_nll_loss(x, x, -1.0), "var has negative entry/entries"),
        (lambda x: F.hinge_embedding_loss(x, x, reduction="most"), "most is not a valid value"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[fd.Tensor], fd.Tensor], message: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(fd.ones(2, 3))


def test_a_loss_of_large_scores_does_not_overflow() -> None:
    x = fd.tensor([1e4, -1e4], requires_grad=True)
    loss = F.soft_margin_loss(x, fd.tensor([-1.0, 1.0]), reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [1e4, 1e4] and x.grad.tolist() == [1.0, -1.0]


def test_a_variance_that_was_cut_off_gets_a_gradient_all_the_same() -> None:
    var = fd.tensor([1e-9], requires_grad=True)
    F.gaussian_nll_loss(fd.tensor([1.0]), fd.tensor([1.0]), var, eps=0.5).backward()
    assert var.grad.tolist() == [1.0]


def test_counts_up_to_1_have_no_stirling_term_and_no_nan() -> None:
    target = fd.tensor([0.0, 1.0], requires_grad=True)
    loss = F.poisson_nll_loss(fd.zeros(2), target, full=True, reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [1.0, 1.0] and target.grad.tolist() == [0.0, 0.0]


def test_what_has_no_length_stays_0() -> None:
    assert F.normalize(fd.zeros(2, 3)).count_nonzero().item() == 0
    out = fd.empty(2, 3)
    assert F.normalize(fd.ones(2, 3), out=out) is out and abs(out[0, 0].item() - 3**-0.5) < 1e-6


def test_gumbel_softmax_draws_in_proportion_and_is_differentiable_when_hard() -> None:
    fd.manual_seed(0)
    chances = fd.tensor([0.1, 0.2, 0.7])
    logits = chances.log().expand(20_000, 3).clone().requires_grad_()
    drawn = F.gumbel_softmax(logits, hard=True)
    assert set(drawn.detach().numpy().reshape(-1).round(6)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0).tolist(), chances.tolist(), atol=0.015)
    (drawn * fd.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum().item() > 0
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(1).detach().numpy(), 1.0, rtol=1e-5)


def test_one_score_without_axes_is_a_row_of_one_class() -> None:
    x, first = fd.tensor(3.0, requires_grad=True), fd.tensor(0)
    for loss in (F.multi_margin_loss, F.multilabel_margin_loss):
        found = loss(x, first, reduction="none")
        assert found.shape == () and found.item() == 0.0
    F.multi_margin_loss(x, first).backward()
    assert x.grad is not None and x.grad.item() == 0.0


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_an_unknown_reduction_is_told_before_a_dtype(loss: Callable[..., fd.Tensor]) -> None:
    with pytest.raises(ValueError, match="abc is not a valid value for reduction"):
        loss(fd.ones(2, 3), fd.ones(2, 3), reduction="abc")
