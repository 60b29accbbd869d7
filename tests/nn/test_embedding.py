"""Embedding and EmbeddingBag: given rows, norms and padding, and errors."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import nn

ROWS = [[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]]


def test_rows_that_are_given_do_not_learn_unless_asked_to() -> None:
    frozen = nn.Embedding.from_pretrained(fd.tensor(ROWS))
    bags = nn.EmbeddingBag.from_pretrained(fd.tensor(ROWS), freeze=False, mode="sum")
    assert not frozen.weight.requires_grad and bags.weight.requires_grad
    assert frozen(fd.tensor([1, 0])).tolist() == [ROWS[1], ROWS[0]]
    assert bags(fd.tensor([[0, 1]])).tolist() == [[3.0, 5.0]]


def test_rules_of_a_table_reach_its_lookups() -> None:
    table = nn.Embedding.from_pretrained(fd.tensor(ROWS), max_norm=1.0, scale_grad_by_freq=True)
    assert fd.allclose(table(fd.tensor([0])), fd.tensor([[0.6, 0.8]]))
    bags = nn.EmbeddingBag.from_pretrained(
        fd.tensor(ROWS), max_norm=1.0, include_last_offset=True, padding_idx=1
    )
    found = bags(fd.tensor([0, 1]), fd.tensor([0, 2]))
    assert fd.allclose(found, fd.tensor([[0.6, 0.8]]))


def test_the_row_of_padding_begins_as_zeros_and_gets_no_gradient() -> None:
    for kind in (nn.Embedding, nn.EmbeddingBag):
        table: Any = kind(3, 2, padding_idx=-1)
        assert table.padding_idx == 2 and table.weight[2].tolist() == [0.0, 0.0]
        table(fd.tensor([[0, 2]])).sum().backward()
        assert table.weight.grad[2].tolist() == [0.0, 0.0]
        assert table.weight.grad[0].tolist() != [0.0, 0.0]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.Embedding(3, 2, 7), AssertionError, "Padding_idx must be within num_embeddin"),
        (
            lambda: nn.EmbeddingBag(3, 2, padding_idx=7),
            AssertionError,
            "padding_idx must be within num_embeddings",
        ),
        (
            lambda: nn.Embedding(3, 2, _weight=fd.ones(2, 2)),
            AssertionError,
            "Shape of weight does not match num_embeddings and embedding_dim",
        ),
        (
            lambda: nn.EmbeddingBag.from_pretrained(fd.ones(2)),
            AssertionError,
            "Embeddings parameter is expected to be 2-dimensional",
        ),
        (lambda: nn.Bilinear(0, 2, 3), ValueError, r"in1_features must be > 0, but got \(in1_fea"),
    ],
)
def test_what_makes_no_table_is_refused(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        make()
