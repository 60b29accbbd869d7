"""Losses with weights and PyTorch's older arguments; the expected numbers are PyTorch 2.13's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fastdist
from fastdist import nn
from fastdist.nn import functional as F

WEIGHT = fastdist.tensor([1.0, 2.0, 3.0])
LOGITS = fastdist.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
CLASSES = fastdist.tensor([0, 2])


@pytest.mark.parametrize(
    ("name", "value", "gradient", "of_weight"),
    [
        ("mse_loss", 3.25, [0.5, -3.0], [-0.5625, 0.1875]),
        ("l1_loss", 1.75, [0.25, -0.75], [-0.1875, 0.0625]),
        # As in PyTorch, the sum is divided by the number of elements, not by the sum of weights.
        ("huber_loss", 2.5, [0.5, -1.5], [0.25, 0.75]),
    ],
)
def test_a_weighted_mean_is_pytorchs(
    name: str, value: float, gradient: list[float], of_weight: list[float]
) -> None:
    x = fastdist.tensor([1.0, 0.0], requires_grad=True)
    weight = fastdist.tensor([1.0, 3.0], requires_grad=True)
    loss = getattr(F, name)(x, fastdist.tensor([0.0, 2.0]), weight=weight)
    loss.backward()
    assert x.grad is not None and weight.grad is not None
    assert (loss.item(), x.grad.tolist(), weight.grad.tolist()) == (value, gradient, of_weight)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss])
def test_weights_of_another_shape_are_refused(loss: Callable[..., fastdist.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"Weights and input must have the same size. They have"):
        loss(fastdist.ones(2, 3), fastdist.ones(2, 3), weight=WEIGHT)


@pytest.mark.parametrize("name", ["weight", "pos_weight"])
def test_weights_do_not_make_more_losses_than_there_are_inputs(name: str) -> None:
    lone = fastdist.tensor(0.5)
    losses = [F.binary_cross_entropy_with_logits]
    if name == "weight":
        losses.append(F.binary_cross_entropy)
    for loss in losses:
        with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match the broad"):
            loss(lone, lone, **{name: WEIGHT})


def test_an_index_to_ignore_is_refused_where_the_target_holds_probabilities() -> None:
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point"):
        F.cross_entropy(LOGITS, fastdist.ones(2, 3), ignore_index=1)


def test_smoothing_without_classes_gives_no_loss() -> None:
    none = fastdist.zeros(2, 0)
    losses = F.cross_entropy(none, none, reduction="none", label_smoothing=0.1)
    assert losses.tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:size_average and reduce args:UserWarning")
def test_an_old_argument_does_not_undo_batchmean() -> None:
    likely = fastdist.tensor([[-1.0, -2.0], [-0.5, -1.0]])
    target = fastdist.tensor([[0.25, 0.75], [0.5, 0.5]])
    found = F.kl_div(likely, target, size_average=True, reduction="batchmean")
    assert found.item() == pytest.approx(0.1555647105)


@pytest.mark.filterwarnings("ignore:size_average and reduce args:UserWarning")
@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        (lambda: nn.NLLLoss(WEIGHT, False), CLASSES, -1.0 - 3.0),
        (lambda: nn.CrossEntropyLoss(WEIGHT, None, 2, False), CLASSES, [1.407606, 0.0]),
        (lambda: nn.CrossEntropyLoss(WEIGHT, False), CLASSES, 3.061939),
        (lambda: nn.MSELoss(False), LOGITS + 2, 24.0),
        (lambda: nn.L1Loss(None, False), LOGITS + 2, [[2.0] * 3] * 2),
        (
            lambda: nn.BCEWithLogitsLoss(None, None, False),
            fastdist.ones(2, 3),
            [[0.313262, 0.126928, 0.693147], [0.693147, 0.693147, 0.313262]],
        ),
    ],
)
def test_a_loss_module_takes_pytorchs_older_arguments_in_their_places(
    loss: Callable[[], nn.Module], target: fastdist.Tensor, expected: float | list[float]
) -> None:
    found = loss()(LOGITS, target)
    assert fastdist.allclose(found, fastdist.tensor(expected), rtol=1e-5)


def test_the_old_name_of_a_loss_for_images_warns_and_does_the_same() -> None:
    scores, classes = LOGITS.log_softmax(1).reshape(1, 3, 1, 2), CLASSES.reshape(1, 1, 2)
    with pytest.warns(FutureWarning, match=r"^NLLLoss2d has been deprecated\. Please use NLLLoss"):
        old = nn.NLLLoss2d(WEIGHT, reduction="none")
    assert fastdist.equal(
        old(scores, classes), nn.NLLLoss(WEIGHT, reduction="none")(scores, classes)
    )
