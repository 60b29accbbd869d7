"""Sequences are padded and packed, and unpacked again."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.nn.utils import rnn

LENGTHS = (2, 4, 3)


def sequences() -> list[fd.Tensor]:
    """Return sequences whose numbers are 10 * (sequence + 1) + position: 10, 11; 20, 21 ..."""
    return [fd.arange(10.0 * (i + 1), 10.0 * (i + 1) + n) for i, n in enumerate(LENGTHS)]


def test_pad_sequence_pads_on_either_side() -> None:
    given = [fd.tensor([1.0]), fd.tensor([2.0, 3.0])]
    assert rnn.pad_sequence(given).tolist() == [[1, 2], [0, 3]]
    right = rnn.pad_sequence(given, batch_first=True, padding_value=9.0)
    left = rnn.pad_sequence(given, batch_first=True, padding_side="left")
    assert (right.tolist(), left.tolist()) == ([[1, 9], [2, 3]], [[0, 1], [2, 3]])


def test_packed_rows_stand_step_by_step_longest_first() -> None:
    packed = rnn.pack_sequence(sequences(), enforce_sorted=False)
    assert packed.data.tolist() == [20, 30, 10, 21, 31, 11, 22, 32, 23]
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert packed.unsorted_indices.tolist() == [2, 0, 1]


def test_what_was_packed_is_unpacked_in_its_order() -> None:
    packed = rnn.pack_sequence(sequences(), enforce_sorted=False)
    found = [one.tolist() for one in rnn.unpack_sequence(packed)]
    assert found == [one.tolist() for one in sequences()]
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=5)
    assert padded.shape == (5, 3) and lengths.tolist() == list(LENGTHS)
    assert padded[:, 0].tolist() == [10, 11, -1, -1, -1]


def test_unpad_sequence_undoes_pad_sequence() -> None:
    for batch_first in (False, True):
        padded = rnn.pad_sequence(sequences(), batch_first)
        found = rnn.unpad_sequence(padded, fd.tensor(LENGTHS), batch_first)
        assert [one.tolist() for one in found] == [one.tolist() for one in sequences()]


def test_gradients_go_back_through_packing_to_what_is_no_padding() -> None:
    x = fd.ones(3, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False)
    padded, _ = rnn.pad_packed_sequence(packed, total_length=4)
    (padded * fd.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[2, 3], [0, 3], [0, 3]]


def test_equal_lengths_are_packed_without_indices() -> None:
    packed = rnn.pack_padded_sequence(fd.arange(6.0).reshape(3, 2), fd.tensor([3, 3]))
    assert packed.data.tolist() == [0, 1, 2, 3, 4, 5]
    assert packed.sorted_indices is None


def test_a_packed_sequence_moves_and_casts_whole() -> None:
    packed = rnn.pack_sequence(sequences(), enforce_sorted=False)
    assert packed.to(fd.float32) is packed
    assert packed.double().data.dtype is fd.float64
    assert packed.half().float().int().data.dtype is fd.int32
    assert packed.cpu() is packed and not packed.is_cuda
    data, sizes, order, back = packed
    assert rnn.PackedSequence((data, sizes)).unsorted_indices is None
    assert rnn.PackedSequence(data, sizes, order).unsorted_indices.tolist() == back.tolist()
    there = packed.to("sim:0")
    assert str(there.data.device) == str(there.sorted_indices.device) == "sim:0"
    assert str(there.batch_sizes.device) == "cpu"


def test_invert_permutation_undoes_it() -> None:
    assert rnn.invert_permutation(fd.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert rnn.invert_permutation(None) is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: rnn.pack_padded_sequence(fd.ones(3, 2), [1, 3]),
            RuntimeError,
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True",
        ),
        (
            lambda: rnn.pack_padded_sequence(fd.ones(3, 2), [3, 0]),
            RuntimeError,
            "Length of all samples has to be greater than 0",
        ),
        (
            lambda: rnn.pack_padded_sequence(fd.ones(3, 2), [3]),
            RuntimeError,
            r"Expected `len\(lengths\)` to be equal to batch_size, but got 1 \(batch_size=2\)",
        ),
        (
            lambda: rnn.pack_padded_sequence(fd.ones(3, 2), [4, 1]),
            RuntimeError,
            "Expected no length to be beyond the 3 steps of input, got 4",
        ),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_sequence([fd.ones(3)]), total_length=2),
            ValueError,
            "Expected total_length to be at least the length of the longest sequence",
        ),
        (
            lambda: rnn.pad_sequence([fd.ones(2)], padding_side="up"),
            RuntimeError,
            "Expected padding_side to be one of left or right, but got up",
        ),
        (lambda: rnn.pad_sequence(3), RuntimeError, "pad_sequence: Expected iterable for input"),
        (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda: rnn.PackedSequence(fd.ones(3)), AssertionError, "Expected data to be a list or"),
    ],
)
def test_what_cannot_be_packed_or_padded_is_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        call()
