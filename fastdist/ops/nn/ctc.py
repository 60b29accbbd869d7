"""Connectionist temporal classification: the likelihood of a text under any alignment in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.dtypes import float64
from ...core.errors import ShapeError
from ...devices.backend import backend_of
from ...dispatch.composite import COMPOSITES, composite
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import is_differentiated
from ...tensor.tensor import Tensor, from_array
from ..create.creation import ones_like
from ..pointwise.min_max import maximum
from ..saved_indices import keep_version
from ..shape.joining import stack
from .cross_entropy import reduction_code
from .softmax import softmax

# Represents log(0). With -inf in its place, gradients would be NaN if all summands were log(0).
_NEVER = -1e30


@composite(homes="functional")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return -log of the probability that a sequence of classes, drawn step by step, equals the
    target after repetitions are merged and blanks are dropped. Reduction "mean" first divides each
    loss by the length of its target.

    Shape   log_probs (T, N, C) or (T, C); targets (N, S), or one vector of all targets; lengths
            (N,) -> (), or (N,) for reduction "none"
    Note    the gradient is with respect to logits before a log_softmax, as in PyTorch
    Source  Graves et al. 2006, "Connectionist Temporal Classification"
    """
    code = reduction_code(reduction)
    is_batched = len(log_probs._layout.shape) == 3
    if len(log_probs._layout.shape) not in (2, 3):
        raise ShapeError(
            f"ctc_loss: log_probs is (T, N, C) or (T, C), got {log_probs._layout.shape}"
        )
    likely: Any = log_probs if is_batched else log_probs.unsqueeze(1)
    steps, n, classes = likely._layout.shape
    if not steps * n * classes:
        raise ShapeError(f"log_probs tensor must not be empty: got {log_probs._layout.shape}")
    if not 0 <= blank < classes:
        raise ShapeError(f"blank must be in label range: got {blank} for {classes} classes")
    durations = _lengths("input_lengths", input_lengths, n, steps)
    texts = _texts(targets, _lengths("target_lengths", target_lengths, n, None), classes)
    widths = [2 * len(text) + 1 for text in texts]
    letters = np.full((n, max(widths)), blank, np.int64)
    for row, text in zip(letters, texts, strict=True):
        row[1 : 2 * len(text) + 1 : 2] = text
    sizes = np.stack([durations, widths], 1).astype(np.int64)
    given = likely, _like(letters, likely), _like(sizes, likely)
    losses: Any = keep_version(ctc_losses(*given, bool(zero_infinity))[0], targets)
    if code == 0:
        return losses if is_batched else losses.squeeze(0)  # type: ignore[no-any-return]
    if code == 1:
        counts = np.array([max(len(text), 1) for text in texts], losses.dtype.numpy)
        return (losses / _like(counts, losses)).mean()  # type: ignore[no-any-return]
    return losses.sum()  # type: ignore[no-any-return]


def _lengths(name: str, given: Any, n: int, most: int | None) -> list[int]:
    values = given.detach().to_numpy() if isinstance(given, Tensor) else np.asarray(given)
    found = [int(one) for one in values.reshape(-1)]
    if len(found) != n:
        raise ShapeError(f"{name} must be of size batch_size: got {len(found)} for {n} samples")
    for one in found:
        if one < 0 or (most is not None and one > most):
            raise ShapeError(
                f"Expected {name} to have value at {'least 0' if one < 0 else f'most {most}'}, but "
                f"got value {one}"
            )
    return found


def _texts(targets: Tensor, lengths: list[int], classes: int) -> list[np.ndarray[Any, Any]]:
    """Return the classes of each target, copied to the CPU."""
    values = targets.detach().to_numpy().copy()  # nobody can change the copy after the checks
    if values.ndim == 2:
        if len(values) != len(lengths) or max(lengths, default=0) > values.shape[1]:
            raise ShapeError(
                f"Expected tensor to have size at least {max(lengths, default=0)} at dimension 1, "
                f"but got size {values.shape} of targets for {len(lengths)} samples"
            )
        found = [row[:length] for row, length in zip(values, lengths, strict=True)]
    else:
        if values.ndim != 1 or sum(lengths) != len(values):
            raise ShapeError(
                f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size "
                f"{values.shape} of targets in a row, which are as many as target_lengths add up to"
            )
        ends = np.cumsum(lengths)
        found = [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]
    for text in found:
        if text.size and not 0 <= text.min() <= text.max() < classes:
            raise ShapeError(f"ctc_loss: targets are in 0 ... {classes - 1}, got {text.tolist()}")
    return found


def _like(values: np.ndarray[Any, Any], other: Tensor) -> Any:
    """Return an array as a tensor on other's device."""
    device = other._layout.device
    return from_array(backend_of(device.type).from_numpy(values, device.index), device)


@structured("nn.ctc.losses", fresh=True, homes="nowhere", known_as="_ctc_loss")
def ctc_losses(
    log_probs: Tensor, letters: Tensor, sizes: Tensor, zero_infinity: bool
) -> tuple[Tensor, Tensor]:
    """Return -log of the probability of each text. The second result is, for each step and letter,
    the log-probability that the steps so far read as the text up to this letter.

    `letters` holds the texts with blanks around each class; `sizes` holds each sample's number of
    steps and number of letters.
    """


@ctc_losses.plan
def _(log_probs: Tensor, letters: Tensor, sizes: Tensor, zero_infinity: bool) -> Plan:
    steps, n, _ = log_probs._layout.shape
    alpha = (n, steps, letters._layout.shape[1])
    numbers = (zero_infinity,)
    return Plan((n,), log_probs._layout.dtype, numbers, extra_outputs=((alpha, float64),))


@ctc_losses.vjp("log_probs")
def _(
    g: Tensor,
    log_probs: Tensor,
    letters: Tensor,
    sizes: Tensor,
    zero_infinity: bool,
    others: tuple[Tensor, ...],
) -> Any:
    return _gradient(g, log_probs, letters, sizes, others[0], zero_infinity)


@ctc_losses.jvp
def _(
    log_probs_t: Tensor,
    log_probs: Tensor,
    letters: Tensor,
    sizes: Tensor,
    zero_infinity: bool,
    others: tuple[Tensor, ...],
) -> Any:
    g = ones_like(log_probs.detach().select(2, 0).select(0, 0))
    slope = _gradient(g, log_probs, letters, sizes, others[0], zero_infinity)
    return (slope * log_probs_t).sum((0, 2))


def _gradient(
    g: Any, log_probs: Any, letters: Any, sizes: Any, alpha: Any, zero_infinity: bool
) -> Any:
    if is_differentiated(g, log_probs):
        return _gradient_of_ops(g, log_probs, letters, sizes, zero_infinity)
    return ctc_gradient(g, log_probs, letters, sizes, alpha, zero_infinity)


@structured(
    "nn.ctc.gradient",
    fresh=True,
    homes="nowhere",
    known_as="_ctc_loss_backward",
    differentiable=False,
)
def ctc_gradient(
    g: Tensor, log_probs: Tensor, letters: Tensor, sizes: Tensor, alpha: Tensor, zero_infinity: bool
) -> Tensor:
    """Return g times the gradient of ctc_losses; this op is not differentiable."""


@ctc_gradient.plan
def _(
    g: Tensor, log_probs: Tensor, letters: Tensor, sizes: Tensor, alpha: Tensor, zero_infinity: bool
) -> Plan:
    return Plan(log_probs._layout.shape, log_probs._layout.dtype, (zero_infinity,))


def _gradient_of_ops(g: Any, log_probs: Any, letters: Any, sizes: Any, zero_infinity: bool) -> Any:
    """Return the gradient of ctc_losses composed of other ops, so that it is
    differentiable again.
    """
    likely, where = (
        log_probs.transpose(0, 1),
        _Where(letters.to_numpy(), sizes.to_numpy(), log_probs),
    )
    seen = likely.gather(2, where.letters).clamp_min(_NEVER)
    to_come = where.turned(_walked(where.turned(seen), where.turned_bars))
    ways = (_walked(seen, where.bars) + to_come - seen).masked_fill(where.beyond, _NEVER)
    # exp(ways) is the probability of all alignments that are at a letter at a step. The sum over
    # the letters of a step is the probability of the text; softmax divides by this sum.
    chances = likely.exp().scatter_add(2, where.letters, -softmax(ways, 2))
    unlikely = (ways.detach().amax((1, 2), keepdim=True) < _NEVER / 2) & ~where.over
    chances = chances.masked_fill(unlikely, 0.0 if zero_infinity else math.nan)
    chances = chances.masked_fill(where.over, 0.0)
    return (chances * g.reshape(-1, 1, 1)).transpose(0, 1)


class _Where:
    """Masks and indices of the texts as tensors, by sample, step and letter."""

    def __init__(self, letters: Any, sizes: Tensor, other: Tensor) -> None:
        steps, (n, width) = other._layout.shape[0], letters.shape
        self.shape = n, steps, width
        at, s = np.arange(steps), np.arange(width)
        durations, widths = sizes[:, :1], sizes[:, 1:]
        over, beyond = at >= durations, s >= widths
        back_t = np.where(over, at, durations - 1 - at)
        back_s = np.where(beyond, s, widths - 1 - s)
        back = (np.arange(n)[:, None, None] * steps + back_t[:, :, None]) * width
        self._back = _like((back + back_s[:, None, :]).reshape(-1), other)
        index = np.broadcast_to(letters[:, None], self.shape)
        self.letters = _like(np.ascontiguousarray(index), other)
        self.bars = _like(_bars(letters), other)
        self.turned_bars = _like(_bars(np.take_along_axis(letters, back_s, 1)), other)
        self.over = _like(over[:, :, None], other)
        self.beyond = _like(np.ascontiguousarray(over[:, :, None] | beyond[:, None, :]), other)

    def turned(self, x: Tensor) -> Any:
        """Return x, of shape `self.shape`, with the steps and letters of each sample reversed."""
        return x.reshape(-1).index_select(0, self._back).reshape(self.shape)


def _bars(letters: Any) -> Any:
    """Return a mask of letters that cannot be reached by skipping one letter: blanks, and classes
    that equal the previous class.
    """
    barred = np.ones(letters.shape, bool)
    barred[:, 3::2] = letters[:, 3::2] == letters[:, 1:-2:2]
    return barred


def _walked(seen: Tensor, barred: Tensor) -> Any:
    """Return, for each step and letter, the log-probability that the steps so far read as the text
    up to this letter. The shape is (N, T, S).
    """
    n, steps, width = seen._layout.shape
    start = np.where(np.arange(width) == 0, 0.0, _NEVER).astype(seen.dtype.numpy)
    alpha = _like(start, seen).expand(n, width)
    found = []
    for t in range(steps):
        skipped = _moved(alpha, 2).masked_fill(barred, _NEVER)
        alpha = _added(alpha, _moved(alpha, 1), skipped) + seen.select(1, t)
        found.append(alpha)
    return stack(found, 1)


def _added(*ways: Any) -> Any:
    """Return the logarithm of a sum of probabilities, given their logarithms. Gradients are finite
    even where some of the probabilities are 0.
    """
    top = ways[0].detach()
    for way in ways[1:]:
        top = maximum(top, way.detach())
    total = sum([(way - top).exp() for way in ways[1:]], (ways[0] - top).exp())
    return top + total.log()


def _moved(alpha: Any, by: int) -> Any:
    """Return `alpha` shifted by `by` letters."""
    width = alpha._layout.shape[1]
    kept = alpha.narrow(1, 0, max(width - by, 0))
    return COMPOSITES["pad"].call(kept, [min(by, width), 0], value=_NEVER)
