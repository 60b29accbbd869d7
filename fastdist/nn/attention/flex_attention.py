"""Attention whose scores are changed or masked by user-defined functions.

A score function takes (score, batch, head, query, key), and a mask function takes (batch, head,
query, key). Both are written for a single score, and vmap maps them over all scores. The scores of
all queries and keys are in memory at the same time. Masked blocks are computed too: fastdist does
not skip them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.dtypes import int32
from ...core.missing import explain_missing
from ...namespace.vmap import vmap
from ...ops.create.creation import full, ones, zeros
from ...ops.create.ranges import arange
from ...ops.pointwise.masked import where
from ...tensor.layout import Size
from ...tensor.tensor import Tensor

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Mod = Callable[..., Tensor]
_mask_mod_signature = _score_mod_signature = Mod
FlexKernelOptions = dict[str, Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Selects the additional results of flex_attention: see AuxOutput."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """For each query, the logarithm of the sum of exp(score), and the maximum score."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Allow all keys."""
    return batch.new_ones(()) > 0


def or_masks(*mask_mods: Mod) -> Mod:
    """Return a mask function that allows a key if any of the given functions allows it."""
    _require_functions(mask_mods)

    def either(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = mask_mods[0](b, h, q_idx, kv_idx)
        for mod in mask_mods[1:]:
            found = found | mod(b, h, q_idx, kv_idx)
        return found

    return either


def and_masks(*mask_mods: Mod) -> Mod:
    """Return a mask function that allows a key if all given functions allow it."""
    _require_functions(mask_mods)

    def both(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = mask_mods[0](b, h, q_idx, kv_idx)
        for mod in mask_mods[1:]:
            found = found & mod(b, h, q_idx, kv_idx)
        return found

    return both


def _require_functions(mods: tuple[Any, ...]) -> None:
    if not mods or not all(callable(mod) for mod in mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mods}")


def _over_all(mod: Mod, *, with_score: bool) -> Mod:
    """Return mod mapped over batch, head, query and key; the innermost vmap is over the keys."""
    for axis in (3, 2, 1, 0):
        places = [0 if at == axis else None for at in range(4)]
        mod = vmap(mod, in_dims=tuple([0, *places] if with_score else places))
    return mod


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Return the mask that mod_fn computes for all batches, heads, queries and keys.

    Args:
        mod_fn: The function of (batch, head, query, key); returns a bool for one position.
        B: The number of batches; 1 if None.
        H: The number of heads; 1 if None.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: The device of the mask; the default device if None.

    Shape   (B, H, Q_LEN, KV_LEN)
    """
    places = [arange(n, device=device) for n in (B or 1, H or 1, Q_LEN, KV_LEN)]
    return _over_all(mod_fn, with_score=False)(*places)


class BlockMask:
    """A mask in blocks: for each block of queries, it lists the blocks of keys that are fully
    allowed, and the blocks of keys that are partly allowed.

    Make one with create_block_mask (from a mask function) or from_kv_blocks (from lists of blocks).
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: Mod,
    ) -> None:
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Return the BlockMask with the given lists of key blocks.

        Args:
            kv_num_blocks: For each block of queries, the number of partly allowed key blocks.
            kv_indices: For each block of queries, the indices of the partly allowed key blocks,
                followed by indices that are ignored.
            full_kv_num_blocks: As kv_num_blocks, for fully allowed key blocks; None if there are
                none.
            full_kv_indices: As kv_indices, for fully allowed key blocks; None if there are none.
            BLOCK_SIZE: The numbers of queries and keys in a block, or one number for both.
            mask_mod: The mask function for partly allowed blocks; None allows all keys in them.
            seq_lengths: The numbers of queries and keys; None if all blocks are complete.
            compute_q_blocks: Ignored: fastdist does not need lists of query blocks per key block.

        Shape   (B, H, rows) for numbers of blocks, (B, H, rows, columns) for indices
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        blocks = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls(lengths, *blocks, size, noop_mask if mask_mod is None else mask_mod)

    @property
    def shape(self) -> Size:
        """The numbers of batches, heads, queries and keys."""
        return Size((*self.kv_indices.shape[:-2], *self.seq_lengths))

    def numel(self) -> int:
        """Return the product of the numbers of batches, heads, queries and keys."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return an integer matrix with one element per block: 1 if the block is fully or partly
        allowed, else 0.

        Shape   (B, H, rows, columns)
        """
        return (self._partial() | self._full()).to(int32)

    def _partial(self) -> Tensor:
        return _dense(self.kv_num_blocks, self.kv_indices)

    def _full(self) -> Tensor:
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return zeros(self.kv_indices.shape, device=self.kv_indices.device) > 0
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """Return the percentage of positions that are in no allowed block.

        The percentage can be negative, because blocks may extend beyond the ends of the sequences.
        """
        read = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - read / self.numel())

    def to(self, device: Any) -> BlockMask:
        """Return a copy of the mask with its tensors on a device."""
        counts, indices = self.full_kv_num_blocks, self.full_kv_indices
        return BlockMask(
            self.seq_lengths,
            self.kv_num_blocks.to(device),
            self.kv_indices.to(device),
            None if counts is None else counts.to(device),
            None if indices is None else indices.to(device),
            self.BLOCK_SIZE,
            self.mask_mod,
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"

    def allowed(self, batches: int, heads: int) -> Tensor:
        """Return a bool mask of the allowed positions, for a number of batches and heads.

        Shape   (B, H, queries, keys)
        """
        queries, keys = self.seq_lengths
        device = self.kv_indices.device
        inside = create_mask(self.mask_mod, batches, heads, queries, keys, device)
        return (self._spread(self._partial()) & inside) | self._spread(self._full())

    def _spread(self, blocks: Tensor) -> Tensor:
        rows, columns = self.BLOCK_SIZE
        wide = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return wide[..., : self.seq_lengths[0], : self.seq_lengths[1]]


def _dense(counts: Tensor, indices: Tensor) -> Tensor:
    """Return a bool matrix whose row i is True at the columns indices[i, :counts[i]]."""
    columns = indices.shape[-1]
    listed = arange(columns, device=indices.device) < counts.unsqueeze(-1)
    found = zeros(indices.shape, device=indices.device)
    return found.scatter_add(-1, indices.long(), listed.to(found.dtype)) > 0


def _in_order(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each row, the number of True columns, and the indices of all columns, with the
    True columns first.
    """
    order = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(int32), order.to(int32)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """Return the BlockMask of a mask function.

    Args:
        mask_mod: The function of (batch, head, query, key); returns a bool for one position.
        B: The number of batches; None means one mask for all batches.
        H: The number of heads; None means one mask for all heads.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: The device of the mask; the default device if None.
        BLOCK_SIZE: The numbers of queries and keys in a block, or one number for both.
        separate_full_blocks: Whether blocks without any masked position are listed separately.
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padded = zeros(*mask.shape[:2], rows * size[0], columns * size[1], device=device)
    padded[..., :Q_LEN, :KV_LEN] = mask.to(padded.dtype)
    split = padded.view(*mask.shape[:2], rows, size[0], columns, size[1])
    counts = split.sum((-3, -1))
    full_blocks = counts == size[0] * size[1]
    partial = (counts > 0) & ~full_blocks if separate_full_blocks else counts > 0
    counts_of_full, full_order = _in_order(full_blocks)
    return BlockMask(
        (Q_LEN, KV_LEN),
        *_in_order(partial),
        counts_of_full if separate_full_blocks else None,
        full_order if separate_full_blocks else None,
        size,
        mask_mod,
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return softmax(score_mod(query @ key.T * scale)) @ value over the keys that the mask allows.

    Args:
        query: (B, Hq, L, E).
        key: (B, H, S, E).
        value: (B, H, S, Ev).
        score_mod: The function of (score, batch, head, query, key) that returns a changed score.
        block_mask: The mask of allowed positions; None allows all positions.
        scale: The factor of the scores; 1 / sqrt(E) if None.
        enable_gqa: Whether several heads of query may share a head of key and value.
        return_lse: Whether to return the logarithm of the sum of exp(score) as well.
        kernel_options: Ignored.
        return_aux: Additional results to return in an AuxOutput.

    Raises  ValueError for shapes that do not fit together
    Note    the result is zero for a query that may not attend to any key
    """
    _require_shapes(query, key, value, block_mask, enable_gqa=enable_gqa)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if score_mod is not None:
        places = [arange(n, device=query.device) for n in scores.shape]
        scores = _over_all_scores(score_mod)(scores, *places)
    if block_mask is not None:
        allowed = block_mask.allowed(*scores.shape[:2])
        scores = where(allowed, scores, full((), -math.inf, dtype=scores.dtype))
    highest = scores.amax(-1, keepdim=True)
    steady = where(highest == -math.inf, 0.0, highest).detach()
    weights = (scores - steady).exp()
    total = weights.sum(-1, keepdim=True)
    result = (weights / where(total == 0, ones((), dtype=total.dtype), total)) @ value
    result = result.to(query.dtype)
    lse = (total.log() + steady).squeeze(-1)
    if return_aux is not None:
        return result, AuxOutput(
            lse if return_aux.lse else None,
            highest.squeeze(-1) if return_aux.max_scores else None,
        )
    return (result, lse) if return_lse else result


def _over_all_scores(mod: Mod) -> Mod:
    return _over_all(mod, with_score=True)


def _require_shapes(
    query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, *, enable_gqa: bool
) -> None:
    if {query.dim(), key.dim(), value.dim()} != {4}:
        raise ValueError(
            "Expected query, key, and value to have 4 dimensions, but got "
            f"{query.dim()}, {key.dim()} and {value.dim()}"
        )
    if query.shape[1] != key.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got "
            f"Hq={query.shape[1]} and Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    if mask is not None and tuple(mask.shape[-2:]) != (query.shape[2], key.shape[2]):
        raise ValueError(
            f"block_mask was created for block_mask.shape={tuple(mask.shape)} but got "
            f"q_len={query.shape[2]} and kv_len={key.shape[2]}"
        )


explain_missing(__name__)
