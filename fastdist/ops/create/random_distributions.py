"""Random draws from named distributions, and functions that fill a tensor with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import WORDS, float64, float_limits, real_of
from ...core.errors import DTypeError
from ...devices.backend import Backend
from ...dispatch.composite import composite
from ...dispatch.inplace import copy_result
from ...interpreters.batched_draws import drawing_levels, require_own_numbers
from ...interpreters.batched_tensor import (
    Batched,
    in_batches,
    levels,
    levels_of,
    sizes_at,
    unbatched,
    without_batches,
)
from ...random_numbers import rejection
from ...random_numbers.generator import Generator
from ...tensor.broadcast import broadcast_shapes
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from .. import late_ops
from ..rounded_ranges import ends_inside, largest_of, largest_whole, may_leave
from .allocation import new_filled
from .draws import (
    draw_integers,
    draw_numbers,
    generator_or_default,
    open_uniform,
    part_of_graph,
)
from .random import bernoulli, randn, require_int64, require_std


def _written(target: Tensor, drawn: Tensor, known_as: str) -> Tensor:
    """Write random numbers over target, and return it; see copy_result."""
    if drawn.__class__ is Batched:
        require_own_numbers(target, drawn)
    return copy_result(target, drawn, known_as)


def _require_floating(self: Tensor, text: str) -> None:
    if not self._layout.dtype.is_floating_point:
        raise DTypeError(f"{text.format(WORDS[self._layout.dtype])}; cast with .float()")


@composite(homes="method")
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with numbers drawn uniformly from [from, to)."""
    if from_ > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}"
        )
    return _fill(self, "rand", generator, to - from_, from_, "uniform", (from_, to))


@composite(homes="method")
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with normal numbers of mean `mean` and standard deviation `std`."""
    require_std(std)
    # For complex numbers, std is the standard deviation of the whole number, not of each part.
    each = std * math.sqrt(0.5) if self._layout.dtype.is_complex else std
    return _fill(self, "randn", generator, each, mean, "normal")


def _fill(
    target: Tensor,
    kind: str,
    source: Generator | None,
    scale: float,
    start: float,
    known_as: str,
    ends: tuple[float, float] | None = None,
) -> Tensor:
    """Fill target with random numbers of `kind` ("rand" or "randn"), times scale, plus start.

    A complex number gets two random parts. If `ends` is given, numbers are clamped to that range
    after rounding.
    """
    layout = target._layout
    dtype, shape = real_of(layout.dtype), layout.shape
    source, held = generator_or_default(source, layout.device), dtype.numpy.type
    if layout.dtype.is_complex:
        shape = (*shape, 2)
    drawn: Any = draw_numbers(kind, source, shape, dtype, layout.device)
    drawn.mul_(float(held(scale))).add_(float(held(start)))
    if ends is not None and may_leave(dtype, float(scale), float(start), float(ends[1])):
        drawn.clamp_(*ends_inside(dtype, *ends))
    if layout.dtype.is_complex:
        drawn = late_ops.view_as_complex(drawn)
    return _written(target, drawn, known_as)


@composite(homes="method")
def random_(
    self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with integers drawn uniformly from [from, to); a single argument is `to`."""
    if to is None and from_:
        from_, to = 0, from_
    dtype = self._layout.dtype
    require_int64(from_, 0 if to is None else to)
    if to is None:
        to = largest_whole(dtype) + (0 if dtype.is_floating_point else 1)
    source = generator_or_default(generator, self._layout.device)
    return _written(
        self,
        draw_integers(source, from_, to, self._layout.shape, dtype, self._layout.device),
        "random.2",
    )


@composite(homes="method")
def bernoulli_(
    self: Tensor, p: Tensor | Number | None = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Set each element of this tensor to 1 with probability p, else to 0."""
    return _written(self, bernoulli(self.detach(), p, generator=generator), "bernoulli.2")


_CONTINUOUS = (
    "{} distribution is a continuous probability distribution. dtype must be a floating point but "
    "you specified {{}}"
)


@composite(homes="method")
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill this tensor with exponential numbers of rate lambd; none is 0 or infinite."""
    _require_floating(self, _CONTINUOUS.format("Exponential"))
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    drawn: Any = open_uniform(self._layout, generator)
    least, most = _ends_of_open_uniform(self)
    ends = -math.log(most) / lambd, -math.log(least) / lambd
    return _written(self, _kept_positive(drawn.log() / -lambd, self, *ends), "exponential")


@composite(homes="method")
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill this tensor with numbers of trials (1, 2, ...) until the first success, if each trial
    succeeds with probability p.
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn: Any = open_uniform(self._layout, generator)
    most = largest_of(self._layout.dtype)
    trials = (drawn.log() / math.log1p(-p)).ceil().clamp(min=1.0, max=most)
    return _written(self, trials, "geometric")


@composite(homes="method")
def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with Cauchy numbers; sigma is half the interquartile range."""
    _require_floating(self, _CONTINUOUS.format("Cauchy"))
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    drawn: Any = open_uniform(self._layout, generator)
    found = median + sigma * ((drawn - 0.5) * math.pi).tan()
    most, farthest = largest_of(self._layout.dtype), 1 / (math.pi * _ends_of_open_uniform(self)[0])
    if not abs(median) + sigma * farthest < most:
        found = found.clamp(min=-most, max=most)
    return _written(self, found, "cauchy")


@composite(homes="method")
def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Fill this tensor with exp(x), where x are normal numbers with the given mean and std."""
    _require_floating(self, "\"log_normal_cpu\" not implemented for '{}'")
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    layout = self._layout
    drawn: Any = randn(layout.shape, generator=generator, dtype=layout.dtype, device=layout.device)
    # randn draws no number that is 9 or more standard deviations from the mean.
    ends = [math.exp(min(max(mean + far * std, -1e3), 700.0)) for far in (-9.0, 9.0)]
    return _written(self, _kept_positive((drawn * std + mean).exp(), self, *ends), "log_normal")


def _ends_of_open_uniform(like: Tensor) -> tuple[float, float]:
    """Return the smallest and the largest number that open_uniform draws for a tensor's dtype."""
    half_step = 2.0**-53 if like._layout.dtype is float64 else 2.0**-33
    return half_step, 1.0 - half_step


def _kept_positive(drawn: Tensor, like: Tensor, least: float, most: float) -> Any:
    """Return drawn, clamped so that no number is rounded to 0 or infinity in the dtype of `like`.

    The numbers in drawn are between least and most.
    """
    limits, largest = float_limits(like._layout.dtype), largest_of(like._layout.dtype)
    smallest = float(limits.smallest_subnormal)
    if least > float(limits.tiny) and most < largest:
        return drawn
    return drawn.clamp(min=smallest, max=largest)


def _draw_of(
    name: str, kind: str, input: Tensor, generator: Generator | None, *more: Tensor
) -> Tensor:
    """Return draws of a distribution (random_numbers/rejection.py) whose parameters are tensors.
    Each element uses one block of the stream.
    """
    _require_floating(input, f"\"{kind}\" not implemented for '{{}}'")
    given: list[Any] = [one.detach() for one in (input, *more)]
    source = generator_or_default(generator, input._layout.device)
    return _draw_in_batches(name, source, given) if levels.depth else _draw(name, source, given)


def _draw_in_batches(name: str, source: Generator, given: list[Any]) -> Tensor:
    """Return draws as _draw_of does, inside vmap: calls of a level with randomness="same" use the
    same part of the stream, even if their parameters are different.
    """
    own = drawing_levels()
    alike = [level for level in levels_of(given) if level not in own]
    which = sorted([*own, *alike])
    # The axes of levels in `alike` come first, and become one axis.
    first = [which.index(level) for level in (*alike, *own)]
    sizes, shape = sizes_at([*alike, *own]), given[0]._layout.shape
    more = range(len(which), len(which) + len(shape))
    repeats = math.prod(sizes[: len(alike)])
    wholes: list[Any] = [without_batches(one, which) for one in given]
    each = (*sizes[len(alike) :], *shape)
    rows = [whole.permute(*first, *more).reshape(repeats, *each) for whole in wholes]
    mark, found = source.bookmark(), rows[0].new_empty(repeats, *each)
    for i in range(repeats):
        if i:
            source.go_to(mark)
        found[i] = _draw(name, source, [one[i] for one in rows])
    back = [first.index(place) for place in range(len(which))]
    return in_batches(found.reshape(*sizes, *shape).permute(*back, *more), which)


def _draw(name: str, source: Generator, given: list[Any]) -> Tensor:
    """Return draws as _draw_of does, for parameters that are no batches."""
    layout = given[0]._layout

    def values() -> np.ndarray[Any, Any]:
        numbers = [one.to(float64).to_numpy().reshape(-1) for one in given]
        with np.errstate(all="ignore"):
            drawn = getattr(rejection, name)(source.reserve(layout.numel), *numbers)
            return drawn.reshape(layout.shape).astype(layout.dtype.numpy)  # type: ignore[no-any-return]

    def write(backend: Backend, raw: Any) -> None:
        arrays = [one.contiguous()._array for one in given]
        part = part_of_graph(backend, raw, source) or source
        backend.kernel(f"create.rejection.{name}")(*arrays, raw, *part.reserve(layout.numel))

    return new_filled(values, write, layout.shape, layout.dtype, layout.device, False)


@composite(homes="function")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Poisson numbers with the rates in input, in input's dtype.

    Raises  RuntimeError for a rate that is negative or NaN. Rates on other devices than the CPU are
            not checked; there, such a rate gives NaN
    """
    _require_floating(input, "\"poisson_cpu\" not implemented for '{}'")
    if input._layout.device is CPU and not bool((unbatched(input).detach() >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _draw_of("poisson", "poisson_cpu", input, generator)


@composite(homes="function")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers of successes in `count` trials with probability `prob`, in count's dtype."""
    if not count._layout.dtype.is_floating_point:
        raise ValueError(
            "binomial only supports floating-point dtypes for count, got: "
            f"{WORDS[count._layout.dtype]}"
        )
    if prob._layout.dtype is not count._layout.dtype:
        raise DTypeError(
            f"Found dtype {WORDS[prob._layout.dtype]} but expected {WORDS[count._layout.dtype]}"
        )
    shape = broadcast_shapes("binomial", [count._layout.shape, prob._layout.shape])
    count, prob = (late_ops.expand(given, shape) for given in (count, prob))
    return _draw_of("binomial", "binomial_cpu", count, generator, prob)


@composite(homes="function")
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return gamma numbers with the concentrations in input and scale 1. No result is below the
    smallest normal number of input's dtype.
    """
    drawn: Any = _draw_of("gamma", "gamma_cpu", input, generator)
    least = float(float_limits(input._layout.dtype).tiny)
    return late_ops.gamma_of(input, drawn.clamp(min=least))


def log_standard_gamma(input: Tensor, generator: Generator | None = None) -> Any:
    """Return the logarithms, in float64, of the numbers that _standard_gamma draws. The logarithms
    are finite even for concentrations so small that the gamma numbers underflow.
    """
    _require_floating(input, "\"gamma_cpu\" not implemented for '{}'")
    wide = input.to(float64)
    return late_ops.log_gamma_of(wide, _draw_of("log_gamma", "gamma_cpu", wide, generator))


@composite(homes="function")
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers that sum to 1 along the last axis: gamma numbers with the concentrations in
    input, divided by their sum. No result is below the smallest normal number of input's dtype.
    """
    # From logarithms, because at small concentrations all gamma numbers of a row may underflow.
    shares: Any = late_ops.softmax(log_standard_gamma(input, generator), -1)
    shares = shares.to(input._layout.dtype)
    return shares.clamp(min=float(float_limits(input._layout.dtype).tiny))  # type: ignore[no-any-return]
