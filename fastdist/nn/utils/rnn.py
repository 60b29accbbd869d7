"""Sequences of different lengths, padded to one tensor or as a PackedSequence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ...core.dtypes import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ...core.folded_frames import folds
from ...core.missing import show_public
from ...core.sequences import finite_list
from ...core.short_repr import short_repr
from ...dispatch.signature import tensors_in
from ...ops.create.creation import empty_like, tensor
from ...ops.create.ranges import arange
from ...ops.shape.joining import cat, stack
from ...tensor.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

# An iterable without a length is taken to be infinite if it yields more sequences than this.
_MOST_SEQUENCES: Final = 1 << 20


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences packed by step: data has the rows of step 0, then the rows of step 1, and so on.

    `batch_sizes` (on the CPU) holds, for each step, the number of sequences that have a row.
    Sequences are sorted, longest first. `sorted_indices` holds the original positions of the
    sequences, or is None if the sequences were sorted already.
    """

    __slots__ = ()

    @folds
    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Create a PackedSequence from data and batch_sizes, or from the pair of them as data."""
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self) -> PackedSequence:
        """Return a copy with data in pinned memory."""
        indices = [_each(one, "pin_memory") for one in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return a copy with data converted or moved; self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        more = {key: kwargs[key] for key in ("non_blocking", "copy") if key in kwargs}
        indices = [
            None if one is None else one.to(data.device, **more)
            for one in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return a copy with data on a GPU, by default the current one."""
        return self.to(*args, **kwargs) if args or "device" in kwargs else self.to("cuda", **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return a copy with data on the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> PackedSequence:
        """Return a copy with data converted to float64."""
        return self.to(dtype=float64)

    def float(self) -> PackedSequence:
        """Return a copy with data converted to float32."""
        return self.to(dtype=float32)

    def half(self) -> PackedSequence:
        """Return a copy with data converted to float16."""
        return self.to(dtype=float16)

    def long(self) -> PackedSequence:
        """Return a copy with data converted to int64."""
        return self.to(dtype=int64)

    def int(self) -> PackedSequence:
        """Return a copy with data converted to int32."""
        return self.to(dtype=int32)

    def short(self) -> PackedSequence:
        """Return a copy with data converted to int16."""
        return self.to(dtype=int16)

    def char(self) -> PackedSequence:
        """Return a copy with data converted to int8."""
        return self.to(dtype=int8)

    def byte(self) -> PackedSequence:
        """Return a copy with data converted to uint8."""
        return self.to(dtype=uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether data is on a GPU."""
        return bool(self.data.device.type == "cuda")

    def is_pinned(self) -> bool:
        """Return whether data is in pinned memory."""
        return bool(self.data.is_pinned())


def _each(one: Any, method: str) -> Tensor | None:
    return None if one is None else getattr(one, method)()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse permutation; None for None."""
    if permutation is None:
        return None
    places: Any = arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    found: Tensor = empty_like(permutation).scatter_(0, permutation, places)
    return found


@folds
def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return the PackedSequence of a padded batch, given the lengths of its sequences.

    Shape   (time, batch, ...), or (batch, time, ...) with batch_first
    """
    known = _lengths(lengths)
    order = None
    if not enforce_sorted:
        order = sorted(range(len(known)), key=lambda i: -known[i])
        known = [known[i] for i in order]
    indices = None if order is None else tensor(order, dtype=int64, device=input.device)
    if indices is not None:
        input = input.index_select(0 if batch_first else 1, indices)
    if batch_first:
        input = input.transpose(0, 1)
    _require_lengths(known, input.shape)
    sizes = [sum(length > step for length in known) for step in range(known[0])]
    time, batch = input.shape[:2]
    rows = input.reshape(time * batch, *input.shape[2:])
    if sizes != [batch] * time:
        places = [step * batch + i for step, count in enumerate(sizes) for i in range(count)]
        rows = rows.index_select(0, tensor(places, dtype=int64, device=input.device))
    return PackedSequence(rows, tensor(sizes, dtype=int64), indices)


def _lengths(lengths: Any) -> list[int]:
    if isinstance(lengths, Tensor):
        if lengths.device.type != "cpu":
            raise RuntimeError(
                f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D "
                f"{lengths.device} {lengths.dtype} tensor"
            )
        lengths = lengths.tolist()
    return [int(length) for length in lengths]


def _require_lengths(lengths: list[int], shape: Sequence[int]) -> None:
    if len(lengths) != shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={shape[1]})"
        )
    if any(one < other for one, other in itertools.pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if not lengths or lengths[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if lengths[0] > shape[0]:
        raise RuntimeError(
            f"Expected no length to be beyond the {shape[0]} steps of input, got {lengths[0]}"
        )


@folds
def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sequences as one padded tensor, and a tensor of their lengths.

    Raises  ValueError if total_length is less than the longest sequence
    """
    sizes = sequence.batch_sizes.tolist()
    longest, batch = len(sizes), sizes[0]
    time = longest if total_length is None else total_length
    if time < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    data: Any = sequence.data
    rows = data
    if sizes != [batch] * time:
        places = [step * batch + i for step, count in enumerate(sizes) for i in range(count)]
        at = tensor(places, dtype=int64, device=data.device)
        rows = data.new_full((time * batch, *data.shape[1:]), padding_value)
        rows = rows.index_copy(0, at, data)
    padded = rows.reshape(time, batch, *data.shape[1:])
    lengths = tensor([sum(count > i for count in sizes) for i in range(batch)], dtype=int64)
    if batch_first:
        padded = padded.transpose(0, 1)
    indices = sequence.unsorted_indices
    if indices is not None:
        padded = padded.index_select(0 if batch_first else 1, indices)
        lengths = lengths.index_select(0, indices.cpu())
    return padded, lengths


@folds
def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences stacked into one tensor and padded to the longest.

    Raises  RuntimeError if sequences is not an iterable of tensors, if shapes do not fit, or if
            padding_side is neither "right" nor "left"

    Args:
        sequences: Tensors whose shapes differ only in the first axis.
        batch_first: Whether the batch is the first axis instead of the second.
        padding_value: The number to pad with.
        padding_side: "right" or "left".

    Example:
        >>> nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
        tensor([[1., 1.],
                [1., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    if isinstance(sequences, Tensor):
        given = list(sequences.unbind(0))
    elif isinstance(sequences, Iterable):
        given = tensors_in("pad_sequence", "sequences", finite_list(sequences, _MOST_SEQUENCES))
    else:
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest = max(one.shape[0] for one in given)
    padded = [_padded(one, longest - one.shape[0], padding_value, padding_side) for one in given]
    return stack(padded, 0 if batch_first else 1)


def _padded(sequence: Any, count: int, value: float, side: str) -> Tensor:
    if not count:
        return sequence  # type: ignore[no-any-return]
    padding = sequence.new_full((count, *sequence.shape[1:]), value)
    return cat([padding, sequence] if side == "left" else [sequence, padding], 0)


@folds
def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded tensor as a list, each cut to its length."""
    if not isinstance(padded_sequences, Tensor):
        raise TypeError(
            "unpad_sequence(): argument 'padded_sequences' must be a Tensor, not "
            f"{short_repr(padded_sequences)}"
        )
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        one.narrow(0, 0, length)
        for one, length in zip(padded_sequences.unbind(0), _lengths(lengths), strict=True)
    ]


@folds
def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return the PackedSequence of tensors whose shapes differ only in the first axis."""
    is_one = isinstance(sequences, Tensor)
    given = list(sequences) if is_one else tensors_in("pack_sequence", "sequences", sequences)
    lengths = [one.shape[0] for one in given]
    return pack_padded_sequence(pad_sequence(given), lengths, enforce_sorted=enforce_sorted)


@folds
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences as a list of tensors, without padding."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


show_public(__name__)
