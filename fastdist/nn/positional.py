"""Functions of nn.functional with the signatures of PyTorch's top-level functions.

In PyTorch, nn.functional calls top-level functions such as `torch.batch_norm`, whose arguments are
in another order than in nn.functional. Modes and reductions are numbers (a reduction is 0 for none,
1 for mean, 2 for sum), and `cudnn_enabled` is ignored. Losses default to no reduction, as in
PyTorch's functions; PyTorch's documentation says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import uint8
from ..core.short_repr import short_repr
from ..dispatch.composite import checked
from ..ops.nn.dropout import drop_channels
from ..ops.nn.embedding import bound_norms
from ..tensor.tensor import Tensor, from_array
from . import functional as F

_REDUCTIONS = ("none", "mean", "sum")
_BAGS = ("sum", "mean", "max")


def _word(what: str, words: tuple[str, ...], number: int) -> str:
    """Return words[number].

    Raises  ValueError for a number out of range, TypeError for a value that is not an integer
    """
    if not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be int, not {type(number).__name__}")
    if number not in range(len(words)):
        listed = ", ".join(f"{i} ({word})" for i, word in enumerate(words))
        raise ValueError(f"{short_repr(number)} is not a valid value for {what}: one of {listed}")
    return words[number]


def _reduction(number: int) -> str:
    return _word("reduction", _REDUCTIONS, number)


# ---- Layers -------------------------------------------------------------------------------------


@checked
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Return the result of nn.functional.batch_norm."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@checked
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Return the result of nn.functional.instance_norm."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@checked
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return the result of nn.functional.group_norm."""
    return F.group_norm(input, num_groups, weight, bias, eps)


@checked
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the result of nn.functional.embedding; a padding_idx of -1 means no padding."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


@checked
def embedding_renorm_(
    weight: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale down, in place, the rows of weight at indices whose norm is above max_norm."""
    bound_norms(weight, indices, max_norm, norm_type)
    return weight


@checked
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return nn.functional.embedding_bag's result and three more tensors.

    The three tensors are the bag of each index, the number of counted indices per bag (all except
    padding_idx), and the index of each maximum. For sums and means the third tensor is equal to the
    second.

    `mode` is 0 (sum), 1 (mean) or 2 (max). The call waits for the device, to read the indices.
    """
    found = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=_word("mode", _BAGS, mode),
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    places, starts = indices.to_numpy(), offsets.to_numpy()
    starts = starts[:-1] if include_last_offset else starts
    bags = np.searchsorted(starts, np.arange(len(places)), "right") - 1
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    counted = places != padding
    sizes = np.bincount(bags[counted], minlength=len(starts))
    largest = sizes
    if mode == 2:
        rows = weight.detach().to_numpy()
        largest = np.zeros((len(starts), rows.shape[1]), np.int64)
        for bag in np.flatnonzero(sizes):
            own = places[(bags == bag) & counted]
            largest[bag] = own[rows[own].argmax(0)]
    kept = [from_array(np.array(one, np.int64)).to(weight.device) for one in (bags, sizes, largest)]
    return found, kept[0], kept[1], kept[2]


@checked
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Return the result of nn.functional.adaptive_max_pool1d, and the indices of the maxima."""
    found: tuple[Tensor, Tensor] = F.adaptive_max_pool1d(input, output_size, return_indices=True)
    return found


@checked
def constant_pad_nd(input: Tensor, pad: Any, value: complex = 0) -> Tensor:
    """Return the result of nn.functional.pad with a constant value.

    A negative integer as the value of a uint8 tensor wraps around: -1 gives 255.
    """
    if isinstance(value, int) and -256 < value < 0 and input.dtype is uint8:
        value += 256
    return F.pad(input, pad, "constant", value)


@checked
def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """Return the result of nn.functional.affine_grid."""
    return F.affine_grid(theta, size, align_corners)


@checked
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return the result of nn.functional.grid_sample.

    Interpolation modes are 0 (bilinear), 1 (nearest), 2 (bicubic); padding modes are 0 (zeros),
    1 (border), 2 (reflection).
    """
    mode = _word("interpolation_mode", tuple(F.GRID_SAMPLE_INTERPOLATION_MODES), interpolation_mode)
    padding = _word("padding_mode", tuple(F.GRID_SAMPLE_PADDING_MODES), padding_mode)
    return F.grid_sample(input, grid, mode, padding, align_corners)


@checked
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return the result of grid_sampler for a batch of images."""
    _require_axes(input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@checked
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return the result of grid_sampler for a batch of volumes."""
    _require_axes(input, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _require_axes(input: Tensor, ndim: int) -> None:
    if input.dim() != ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {ndim}D input, but got input with sizes {list(input.shape)}"
        )


# ---- Dropout ------------------------------------------------------------------------------------


def _require_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


@checked
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the result of nn.functional.dropout."""
    _require_probability(p)
    return F.dropout(input, p, train)


@checked
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute nn.functional.dropout in place."""
    _require_probability(p)
    return F.dropout(input, p, train, inplace=True)


@checked
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the result of nn.functional.alpha_dropout."""
    _require_probability(p)
    return F.alpha_dropout(input, p, train)


@checked
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute nn.functional.alpha_dropout in place."""
    _require_probability(p)
    return F.alpha_dropout(input, p, train, inplace=True)


@checked
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the result of nn.functional.feature_alpha_dropout."""
    _require_probability(p)
    return F.feature_alpha_dropout(input, p, train)


@checked
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute nn.functional.feature_alpha_dropout in place."""
    _require_probability(p)
    return F.feature_alpha_dropout(input, p, train, inplace=True)


@checked
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return input with whole channels (along the second axis) set to 0 with probability p."""
    _require_probability(p)
    return drop_channels(input, p, train, False)


@checked
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute feature_dropout in place."""
    _require_probability(p)
    return drop_channels(input, p, train, True)


# ---- Losses -------------------------------------------------------------------------------------


@checked
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """Return the result of nn.functional.binary_cross_entropy_with_logits."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


@checked
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """Return the result of nn.functional.cosine_embedding_loss."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@checked
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """Return the result of nn.functional.ctc_loss."""
    word = _reduction(reduction)
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, word, zero_infinity)


@checked
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """Return the result of nn.functional.hinge_embedding_loss."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


@checked
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """Return target * (log(target) - input), or its mean or sum: the Kullback-Leibler divergence.

    Unlike nn.functional.kl_div, this function does not warn about reduction="mean".
    """
    loss = F.kl_div(input, target, reduction="none", log_target=log_target)
    if _reduction(reduction) == "none":
        return loss
    return loss.mean() if reduction == 1 else loss.sum()


@checked
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """Return the result of nn.functional.margin_ranking_loss."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@checked
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Return the result of nn.functional.poisson_nll_loss."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


@checked
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """Return the result of nn.functional.triplet_margin_loss."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )
