"""Pruned parameters: zeroed entries, composed masks and errors."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn.utils import prune


def layer() -> Any:
    made = nn.Linear(3, 2)
    with fd.no_grad():
        made.weight.copy_(fd.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]))
    return made


def test_the_smallest_entries_go_and_their_originals_stay() -> None:
    one = prune.l1_unstructured(layer(), "weight", 2)
    assert one.weight_mask.tolist() == [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    assert list(one.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    one(fd.ones(1, 3)).sum().backward()
    assert one.weight_orig.grad.tolist() == one.weight_mask.tolist()
    assert prune.is_pruned(nn.Sequential(one))
    prune.remove(one, "weight")
    assert one.weight.tolist() == [[0.0, 0.0, 3.0], [-4.0, 5.0, -6.0]]
    assert sorted(one.state_dict()) == ["bias", "weight"] and not prune.is_pruned(one)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(one, "weight")


def test_a_second_method_chooses_from_what_the_first_left() -> None:
    one = prune.l1_unstructured(layer(), "weight", 2)
    prune.l1_unstructured(one, "weight", 0.5)
    assert one.weight_mask.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    prune.ln_structured(one, "weight", 1, n=1, dim=1)
    assert one.weight.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, -6.0]]
    (entry,) = one._forward_pre_hooks.values()
    assert len(entry.call) == 3 and isinstance(entry.call[0], prune.L1Unstructured)


def test_slices_go_by_their_norm_or_at_random() -> None:
    rows = prune.ln_structured(layer(), "weight", 1, n=2, dim=0)
    assert rows.weight_mask.tolist() == [[0.0] * 3, [1.0] * 3]
    columns = prune.random_structured(layer(), "weight", 2, dim=-1)
    assert sorted(columns.weight_mask.sum(0).tolist()) == [0.0, 0.0, 2.0]
    drawn = prune.random_unstructured(layer(), "weight", 0.5)
    assert drawn.weight_mask.sum().item() == 3.0
    none = prune.identity(layer(), "weight")
    assert none.weight_mask.sum().item() == 6.0


def test_scores_and_masks_may_be_given() -> None:
    scores = fd.tensor([[6.0, 5.0, 4.0], [3.0, 2.0, 1.0]])
    one = prune.l1_unstructured(layer(), "weight", 3, importance_scores=scores)
    assert one.weight_mask.tolist() == [[1.0] * 3, [0.0] * 3]
    mask = fd.tensor([[1, 0, 1], [1, 1, 1]])
    prune.custom_from_mask(one, "weight", mask)
    assert one.weight_mask.tolist() == [[1.0, 0.0, 1.0], [0.0] * 3]


def test_one_choice_among_several_parameters() -> None:
    first, second = layer(), layer()
    places = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(places, prune.L1Unstructured, amount=5)
    zeros = [6 - one.weight_mask.sum().item() for one in (first, second)]
    assert sum(zeros) == 5 and min(zeros) >= 2
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured(places, prune.RandomStructured, amount=1)


@pytest.mark.parametrize(
    ("amount", "error", "text"),
    [
        ("a", TypeError, "Invalid type for amount: a"),
        (-1, ValueError, "should either be a float in the range"),
        (1.5, ValueError, "should either be a float in the range"),
        (7, ValueError, "amount=7 should be smaller than the number of parameters to prune=6"),
    ],
)
def test_an_amount_that_cannot_be_is_refused(amount: Any, error: type, text: str) -> None:
    one = layer()
    with pytest.raises(error, match=text):
        prune.l1_unstructured(one, "weight", amount)
    assert list(one.state_dict()) == ["weight", "bias"] and not prune.is_pruned(one)


def test_slices_of_a_vector_are_refused() -> None:
    with pytest.raises(ValueError, match="can only be applied to multidimensional tensors"):
        prune.random_structured(layer(), "bias", 1, dim=0)
    with pytest.raises(IndexError, match="Invalid index 2 for tensor of size"):
        prune.random_structured(layer(), "weight", 1, dim=2)
    with pytest.raises(AssertionError, match="importance_scores should have the same shape"):
        prune.l1_unstructured(layer(), "weight", 1, importance_scores=fd.ones(2))
