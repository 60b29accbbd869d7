"""Connectionist temporal classification: the likelihood of a text, however it lies in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..devices.backend import backend_of
from ..dispatch.composite import COMPOSITES, composite
from ..dispatch.op import OPS
from ..tensor.tensor import Tensor, from_array
from .likelihood import reduction_code

# Stands for the logarithm of 0: where it is all there is, infinity would make slopes of NaN.
_NEVER = -1e30


@composite(function=True, method=False, functional=True)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return -log of the chance that a sequence of classes, drawn step by step, reads as the target
    once repetitions are merged and blanks dropped; "mean" divides by the targets' lengths first.

    Shape   log_probs (T, N, C) or (T, C); targets (N, S), or all of them in one row; lengths (N,)
            -> (), or (N,) for reduction "none"
    Note    the gradient is that of logits before a log_softmax, as PyTorch's is
    Source  Graves et al. 2006, "Connectionist Temporal Classification"
    """
    code = reduction if isinstance(reduction, int) else reduction_code(reduction)
    is_batched = len(log_probs.layout.shape) == 3
    if len(log_probs.layout.shape) not in (2, 3):
        raise ShapeError(
            f"ctc_loss: log_probs is (T, N, C) or (T, C), got {log_probs.layout.shape}"
        )
    likely: Any = log_probs if is_batched else log_probs.unsqueeze(1)
    steps, n, classes = likely.layout.shape
    if not 0 <= blank < classes:
        raise ShapeError(f"blank must be in label range: got {blank} for {classes} classes")
    durations = _lengths("input_lengths", input_lengths, n, steps)
    texts = _texts(targets, _lengths("target_lengths", target_lengths, n, None), classes)
    losses = _losses(likely.transpose(0, 1), durations, texts, blank)
    unlikely = losses.detach() > -_NEVER / 2
    losses = losses.masked_fill(unlikely, 0.0 if zero_infinity else math.inf)
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
    """Return the classes of each target, which decide here how the sums are arranged."""
    values = targets.detach().to_numpy()
    if values.ndim == 2:
        if len(values) != len(lengths) or max(lengths, default=0) > values.shape[1]:
            raise ShapeError(
                f"Expected tensor to have size at least {max(lengths, default=0)} at dimension 1, "
                f"but got size {values.shape} of targets for {len(lengths)} samples"
            )
        found = [row[:length] for row, length in zip(values, lengths, strict=True)]
    else:
        if values.ndim != 1 or sum(lengths) > len(values):
            raise ShapeError(
                f"ctc_loss: targets of shape {values.shape} hold fewer classes than target_lengths "
                f"ask for, {sum(lengths)}"
            )
        ends = np.cumsum(lengths)
        found = [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]
    for text in found:
        if text.size and not 0 <= text.min() <= text.max() < classes:
            raise ShapeError(f"ctc_loss: targets are in 0 ... {classes - 1}, got {text.tolist()}")
    return found


def _like(values: np.ndarray[Any, Any], other: Tensor) -> Any:
    """Return an array as a tensor on other's device."""
    device = other.layout.device
    return from_array(backend_of(device.type).from_numpy(values, device.index), device)


def _losses(
    likely: Any, durations: list[int], texts: list[np.ndarray[Any, Any]], blank: int
) -> Any:
    """Return -log of the chances, of (N, T, C): alpha[s] is that of having read the first s letters
    of a text with a blank around each.
    """
    n, steps, _ = likely.layout.shape
    width = 2 * max(map(len, texts), default=0) + 1
    letters = np.full((n, width), blank, np.int64)
    for row, text in zip(letters, texts, strict=True):
        row[1 : 2 * len(text) + 1 : 2] = text
    may_skip = np.zeros((n, width), bool)
    may_skip[:, 2:] = (letters[:, 2:] != blank) & (letters[:, 2:] != letters[:, :-2])
    index = _like(
        np.ascontiguousarray(np.broadcast_to(letters[:, None], (n, steps, width))), likely
    )
    seen = likely.gather(2, index).clamp_min(_NEVER)
    barred = _like(~may_skip, likely)
    alpha = _like(np.where(np.arange(width) == 0, 0.0, _NEVER).astype(likely.dtype.numpy), likely)
    alpha = alpha.expand(n, width)
    for t in range(steps):
        ways = [alpha, _moved(alpha, 1)]
        if t:  # the first letter may follow nothing, the second no blank that was never read
            ways.append(_moved(alpha, 2).masked_fill(barred, _NEVER))
        moved = _added(*ways)
        now = moved + seen.select(1, t)
        over = [t >= duration for duration in durations]
        alpha = (
            OPS["where"].public(_like(np.array(over)[:, None], likely), alpha, now)
            if any(over)
            else now
        )
    ends = np.array([[2 * len(text)] for text in texts], np.int64).reshape(n, 1)
    last = alpha.gather(1, _like(ends, likely))
    before = alpha.gather(1, _like(np.maximum(ends - 1, 0), likely))
    before = before.masked_fill(_like(ends == 0, likely), _NEVER)
    losses = -_added(last, before).squeeze(1)
    within = np.arange(steps) < np.array(durations).reshape(n, 1)
    chances = likely.exp().masked_fill(_like(~within[:, :, None], likely), 0.0).sum((1, 2))
    return losses + (chances - chances.detach())


def _added(*ways: Any) -> Any:
    """Return the logarithm of the sum of chances, whose slopes stay finite where some are 0."""
    top = ways[0].detach()
    for way in ways[1:]:
        top = OPS["maximum"].public(top, way.detach())
    total = sum([(way - top).exp() for way in ways[1:]], (ways[0] - top).exp())
    return top + total.log()


def _moved(alpha: Any, by: int) -> Any:
    """Return alpha a number of letters further on."""
    width = alpha.layout.shape[1]
    kept = alpha.narrow(1, 0, max(width - by, 0))
    return COMPOSITES["pad"].call(kept, [min(by, width), 0], value=_NEVER)
