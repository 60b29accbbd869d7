"""Draws from named distributions: from lists of chances, and fills of a tensor with numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np

from ...core import rejection
from ...core.device import CPU
from ...core.dtypes import WORDS, bfloat16, float16, float32, float64, float_limits, int64
from ...core.errors import DTypeError, ShapeError
from ...core.generator import Generator
from ...dispatch.composite import composite
from ...dispatch.copy_inplace import copy_drawn
from ...dispatch.op import OPS
from ...dispatch.output import given_out
from ...tensor.tensor import Tensor
from ..index.searchsorted import searchsorted
from ..rounded_ranges import largest_of
from ..shape.rearranging import broadcast_tensors
from .creation import finish, made
from .random import generator_or_default, open_uniform, part_of_graph, randn


@composite()
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return places in each row of input, drawn with chances in proportion to what stands there.

    Shape   (n,) -> (num_samples,); (m, n) -> (m, num_samples)
    Raises  RuntimeError for chances that are negative, not finite or all 0, and for more draws
            without replacement than there are places; on a device, which is not waited for,
            chances are not looked at
    """
    if out is not None and out.facts.dtype is not int64:
        raise DTypeError(f"multinomial expects Long tensor out, got: {out.facts.dtype.name}")
    chances: Any = input.detach()
    if chances.facts.dtype in (float16, bfloat16):
        # NumPy takes 20 times as long for half types, in which quotients overflow or are equal.
        chances = chances.to(float32)
    _require_chances(chances, num_samples, replacement)
    if replacement:
        found = _with_replacement(chances, num_samples, generator)
    else:
        # Of exponential times with these rates, the earliest.
        drawn: Any = open_uniform(chances.facts, generator)
        times = -drawn.log().to(chances.facts.dtype)
        found = (chances / times).topk(num_samples, -1)[1]
    return given_out("multinomial", out, found, ())


def _with_replacement(chances: Any, num_samples: int, generator: Generator | None) -> Tensor:
    layout = chances.facts
    if layout.device is not CPU:
        return _with_replacement_on_device(chances, num_samples, generator)  # type: ignore[no-any-return]
    source = generator_or_default(generator, layout.device)
    drawn = source.open_uniform((*layout.shape[:-1], num_samples), np.dtype(np.float64))
    rows, n = chances.to_numpy(), layout.shape[-1]
    found = _places(rows.reshape(-1, n), drawn.reshape(-1, num_samples))
    return finish(found.reshape(drawn.shape), layout.device, False)


# A running sum takes 3 ns a place, and a draw 2 ns for each place of its block.
_PLACES_BY_DRAWS: Final = 1.5


# NumPy calls cost more than running sums of so few places.
_FEW: Final = 4096


def _places(rows: Any, drawn: Any) -> Any:
    """Return for each number in (0, 1) of a row the place of that row of chances whose part of
    their sum it lies in.

    Blocks of places are summed first; draws look for their block by binary search, and then inside.
    """
    count, n = rows.shape
    if rows.size <= _FEW:
        block = 1
    else:
        block = 1 << round(math.log2(max(_PLACES_BY_DRAWS * n / drawn.shape[1], 1.0)) / 2)
        block = min(block, 64) if block >= 4 else 1
    parts = _in_blocks(rows, block)
    with np.errstate(over="ignore"):
        # A product with ones waits for BLAS's threads, up to 50 times as long on a busy machine.
        sums = np.einsum("ij->i", parts.reshape(-1, block)) if block > 1 else parts
        sums = sums.reshape(count, -1)
        ends = np.cumsum(sums, 1, np.float64)
    total = ends[:, -1:]
    largest, least = (total[0, 0],) * 2 if count == 1 else (total.max(), total.min())
    if not (largest < np.inf and least > 1e-290):  # too large or too small to divide
        scale = rows.max(1, keepdims=True).astype(np.float64)
        return _places(rows / scale, drawn)
    wanted = drawn * total
    found = _first_above(ends, total, wanted)
    if block == 1:
        return found
    met = (found + np.arange(count)[:, None] * ends.shape[1]).reshape(-1)
    before = ends.reshape(-1)[met] - sums.reshape(-1)[met]
    rest = np.maximum(wanted.reshape(-1) - before, 0.0)
    return found * block + _inside(parts.reshape(-1, block).take(met, 0), rest).reshape(found.shape)


def _first_above(ends: Any, total: Any, wanted: Any) -> Any:
    """Return the first of each row's running sums above each of the row's numbers wanted; the first
    that equals the total where a number rounds up to that.
    """
    count, n = ends.shape
    if count == 1:
        found = ends[0].searchsorted(wanted, "right")
        if (found == n).any():
            found = np.minimum(found, ends[0].searchsorted(total[0], "left"))
        return found
    # One sorted list for all rows: the sums of row i lie in i ... i + 1.
    row = np.arange(count)[:, None]
    keys = ends / total + row
    found = keys.reshape(-1).searchsorted(wanted / total + row, "right") - row * n
    if (found >= n).any():
        found = np.minimum(found, (keys < row + 1).sum(1, keepdims=True))
    return found


def _in_blocks(rows: Any, block: int) -> Any:
    """Return rows, with places of no chance behind them, so that blocks of places fill them."""
    count, n = rows.shape
    if n % block == 0:
        return np.ascontiguousarray(rows)
    filled = np.zeros((count, -(-n // block) * block), rows.dtype)
    filled[:, :n] = rows
    return filled


def _inside(cells: Any, rest: Any) -> Any:
    """Return the place inside of each block of chances where their running sum exceeds rest."""
    # NumPy adds whole rows four times as fast as it makes running sums.
    running = cells.T.astype(np.float64, order="C")
    for before, here in itertools.pairwise(running):
        np.add(before, here, out=here)
    found = (running <= rest).view(np.int8).sum(0, dtype=np.int8).astype(np.int64)
    beyond = found == len(running)
    if beyond.any():
        found[beyond] = (running[:, beyond] < running[-1, beyond]).sum(0)
    return found


def _with_replacement_on_device(chances: Any, num_samples: int, generator: Any) -> Any:
    running = chances.to(float64).cumsum(-1)
    total = running[..., -1:]
    wanted = total.expand(*chances.facts.shape[:-1], num_samples)
    drawn: Any = open_uniform(wanted.facts, generator)
    found: Any = searchsorted(running, drawn * total, right=True)
    return found.minimum((running < total).sum(-1, True))


def _require_chances(input: Tensor, num_samples: int, replacement: bool) -> None:
    layout = input.facts
    if len(layout.shape) not in (1, 2):
        raise ShapeError(f"prob_dist must be 1 or 2 dim, got shape {list(layout.shape)}")
    if not layout.dtype.is_floating_point:
        raise DTypeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{layout.dtype.name}; cast with .float()"
        )
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > layout.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: asked for "
            f"{num_samples} of {layout.shape[-1]}"
        )
    if not layout.numel:
        if 0 not in layout.shape[:-1]:  # rows without places
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        return
    if layout.device is not CPU:
        return
    chances = input.detach().to_numpy()
    with np.errstate(all="ignore"):
        highest = chances.max(-1)
        if not (chances.min() >= 0 and highest.max() < np.inf):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if highest.min() <= 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _require_floating(self: Tensor, text: str) -> None:
    if not self.facts.dtype.is_floating_point:
        raise DTypeError(f"{text.format(WORDS[self.facts.dtype])}; cast with .float()")


_CONTINUOUS = (
    "{} distribution is a continuous probability distribution. dtype must be a floating point but "
    "you specified {{}}"
)


@composite(homes="method")
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill this tensor with exponential numbers of the rate lambd; none is 0 or infinite."""
    _require_floating(self, _CONTINUOUS.format("Exponential"))
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    drawn: Any = open_uniform(self.facts, generator)
    least, most = _ends_of_open_uniform(self)
    ends = -math.log(most) / lambd, -math.log(least) / lambd
    return copy_drawn(self, _kept_positive(drawn.log() / -lambd, self, *ends), "exponential")


@composite(homes="method")
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill this tensor with how many trials of the chance p the first success takes: 1, 2 ..."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn: Any = open_uniform(self.facts, generator)
    most = largest_of(self.facts.dtype)
    trials = (drawn.log() / math.log1p(-p)).ceil().clamp(min=1.0, max=most)
    return copy_drawn(self, trials, "geometric")


@composite(homes="method")
def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with Cauchy's numbers of a median and half their spread about it, sigma."""
    _require_floating(self, _CONTINUOUS.format("Cauchy"))
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    drawn: Any = open_uniform(self.facts, generator)
    found = median + sigma * ((drawn - 0.5) * math.pi).tan()
    most, farthest = largest_of(self.facts.dtype), 1 / (math.pi * _ends_of_open_uniform(self)[0])
    if not abs(median) + sigma * farthest < most:
        found = found.clamp(min=-most, max=most)
    return copy_drawn(self, found, "cauchy")


@composite(homes="method")
def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with numbers whose logarithms have this mean and deviation."""
    _require_floating(self, "\"log_normal_cpu\" not implemented for '{}'")
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    layout = self.facts
    drawn: Any = randn(layout.shape, generator=generator, dtype=layout.dtype, device=layout.device)
    # No normal number is as far as 9 deviations off.
    ends = [math.exp(min(max(mean + far * std, -1e3), 700.0)) for far in (-9.0, 9.0)]
    return copy_drawn(self, _kept_positive((drawn * std + mean).exp(), self, *ends), "log_normal")


def _ends_of_open_uniform(like: Tensor) -> tuple[float, float]:
    """Return the least and the greatest number that open_uniform draws for a tensor's dtype."""
    half_step = 2.0**-53 if like.facts.dtype is float64 else 2.0**-33
    return half_step, 1.0 - half_step


def _kept_positive(drawn: Any, like: Tensor, least: float, most: float) -> Any:
    """Return positive numbers, none of which becomes 0 or infinite in the dtype of `like`; they lie
    between least and most before they are rounded.
    """
    limits, largest = float_limits(like.facts.dtype), largest_of(like.facts.dtype)
    smallest = float(limits.smallest_subnormal)
    if least > float(limits.tiny) and most < largest:
        return drawn
    return drawn.clamp(min=smallest, max=largest)


def _draw_of(
    name: str, kind: str, input: Tensor, generator: Generator | None, *more: Tensor
) -> Tensor:
    """Return what the draw of a name (core/rejection.py) makes of the values of tensors: one block
    of the stream for each element.
    """
    _require_floating(input, f"\"{kind}\" not implemented for '{{}}'")
    layout = input.facts
    given: list[Any] = [one.detach() for one in (input, *more)]
    source = generator_or_default(generator, layout.device)

    def values() -> np.ndarray[Any, Any]:
        numbers = [one.to(float64).to_numpy().reshape(-1) for one in given]
        with np.errstate(all="ignore"):
            drawn = getattr(rejection, name)(source.reserve(layout.numel), *numbers)
            return drawn.reshape(layout.shape).astype(layout.dtype.numpy)  # type: ignore[no-any-return]

    def write(backend: Any, raw: Any) -> None:
        arrays = [one.contiguous().array for one in given]
        part = part_of_graph(backend, raw, source) or source
        backend.kernel(f"rejection.{name}")(*arrays, raw, *part.reserve(layout.numel))

    return made(values, write, layout.shape, layout.dtype, layout.device, False)


@composite(homes="function")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return how many events of the rates in input occur, in input's dtype.

    Raises  RuntimeError for rates that are negative or NaN; on a device, which is not waited for,
            NaN is returned for them
    """
    _require_floating(input, "\"poisson_cpu\" not implemented for '{}'")
    if input.facts.device is CPU and not bool((input.detach() >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _draw_of("poisson", "poisson_cpu", input, generator)


@composite(homes="function")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return how many of count succeed, each with the chance prob, in count's dtype."""
    if not count.facts.dtype.is_floating_point:
        raise ValueError(
            "binomial only supports floating-point dtypes for count, got: "
            f"{WORDS[count.facts.dtype]}"
        )
    if prob.facts.dtype is not count.facts.dtype:
        raise DTypeError(
            f"Found dtype {WORDS[prob.facts.dtype]} but expected {WORDS[count.facts.dtype]}"
        )
    count, prob = broadcast_tensors(count, prob)
    return _draw_of("binomial", "binomial_cpu", count, generator, prob)


@composite(homes="function")
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return gamma numbers of the concentrations in input and scale 1, none below the smallest of
    input's dtype.
    """
    drawn: Any = _draw_of("gamma", "gamma_cpu", input, generator)
    least = float(float_limits(input.facts.dtype).tiny)
    return OPS["gamma_of"].public(input, drawn.clamp(min=least))  # type: ignore[no-any-return]


def log_standard_gamma(input: Any, generator: Generator | None = None) -> Any:
    """Return, in float64, the logarithms of the gamma numbers that _standard_gamma draws: finite
    also for concentrations that are so small that the numbers themselves underflow.
    """
    _require_floating(input, "\"gamma_cpu\" not implemented for '{}'")
    wide = input.to(float64)
    return OPS["log_gamma_of"].public(wide, _draw_of("log_gamma", "gamma_cpu", wide, generator))


@composite(homes="function")
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return shares that add up to 1 along the last axis: gamma numbers of the concentrations in
    input, divided by their sums. No share is below the smallest normal number of input's dtype.
    """
    # By logarithms: of small concentrations all numbers of a row may underflow.
    shares: Any = OPS["softmax"].public(log_standard_gamma(input, generator), -1)
    shares = shares.to(input.facts.dtype)
    return shares.clamp(min=float(float_limits(input.facts.dtype).tiny))  # type: ignore[no-any-return]
