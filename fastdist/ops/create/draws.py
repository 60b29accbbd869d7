"""Draws tensors of random numbers, for the public functions that check arguments.

Inside vmap, one draw has the numbers of all calls, see batched_draws.py in interpreters.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.device import Device, get_default_device
from ...core.dtypes import DType, bool_, float32, float64, float_limits, real_of
from ...core.errors import DTypeError
from ...core.memory_format import MemoryFormat, MemoryLayout
from ...devices.backend import Backend
from ...interpreters.batched_draws import drawing_levels, for_all_calls
from ...interpreters.batched_tensor import in_batches, levels
from ...language.scalar import Body, parse
from ...random_numbers.generator import CapturedDraws, Generator, default_generator_of
from ...tensor.layout import Layout, Shape
from ...tensor.methods import DeviceLike
from ...tensor.promotion import dtype_or_default
from ...tensor.tensor import Tensor
from ..rounded_ranges import ends_inside, largest_whole
from .allocation import new_filled, order_like


def generator_or_default(generator: Generator | None, device: Any) -> Generator:
    if generator is not None:
        return generator
    return default_generator_of(get_default_device() if device is None else Device.parse(device))


def draw_numbers(
    kind: str,
    generator: Generator,
    shape: Shape,
    dtype: DType | None,
    device: DeviceLike,
    requires_grad: bool = False,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
    like: tuple[Tensor, MemoryFormat | None] | None = None,
) -> Tensor:
    """Return random numbers on a device, in the default dtype if dtype is None. If `like` is given,
    the memory of the result has the axis order of the tensor in `like`. Normal numbers of half
    types are drawn in float32 and rounded. A complex number gets two random parts; the parts of a
    complex normal number are scaled so that the number has a standard deviation of 1.
    """
    dtype = dtype_or_default(dtype)
    if not dtype.may_have_gradient:
        raise DTypeError(f'"{kind}" not implemented for {dtype.name}; give a floating dtype')
    if dtype.is_float8:
        from ...dispatch.float8 import no_float8_kernel

        raise no_float8_kernel(kind, dtype)
    name = "uniform" if kind == "rand" else "normal"
    # Uniform numbers of a half type are drawn in that type, because float32 numbers just below 1
    # would be rounded to 1.
    real = real_of(dtype)
    wide = (real if real is float64 or kind == "rand" else float32).numpy
    order = None if like is None else order_like(*like)
    own = drawing_levels() if levels.depth else ()
    if own:
        shape, order = for_all_calls(own, shape, order)
    drawn = (*shape, 2) if dtype.is_complex else shape

    def values() -> np.ndarray[Any, Any]:
        numbers = getattr(generator, name)(drawn, wide)
        if not dtype.is_complex:
            return numbers.astype(dtype.numpy, copy=False)  # type: ignore[no-any-return]
        numbers *= math.sqrt(0.5) if kind == "randn" else 1.0
        return numbers.view(dtype.numpy)[..., 0]  # type: ignore[no-any-return]

    def write(backend: Backend, raw: Any) -> None:
        reserve = getattr(generator, f"reserve_{name}")
        given = reserve(drawn, wide, of=part_of_graph(backend, raw, generator))
        parts = backend.reinterpret(raw[..., None], wide) if dtype.is_complex else raw
        backend.kernel(f"create.random.{name}")(parts, *given)
        if dtype.is_complex and kind == "randn":
            backend.pointwise(_of_two_parts(), [parts], parts)

    made = new_filled(values, write, shape, dtype, device, requires_grad, layout, pin_memory, order)
    return in_batches(made, own) if own else made


@functools.cache
def _of_two_parts() -> Body:
    return parse("x * T(0.5 ** 0.5)", ("x",))


def part_of_graph(backend: Backend, raw: Any, generator: Generator) -> CapturedDraws | None:
    """Return the generator's state for a graph that is being captured; None if no graph is.

    Raises  RuntimeError for a user's generator that is not registered with the graph
    """
    if not backend.is_capturing(backend.index_of(raw)):
        return None
    if generator.captured is None:
        raise RuntimeError(
            "random numbers of this generator cannot be drawn while a graph is captured: each "
            "replay would draw the same. Call graph.register_generator_state(generator) before"
        )
    return generator.captured


def open_uniform(layout: Layout, generator: Generator | None) -> Tensor:
    """Return numbers in (0, 1) as float64, with the shape and device of a layout. For a dtype of
    float32 or smaller, the draw uses as much of the generator's stream as rand does.
    """
    source = generator_or_default(generator, layout.device)
    wide, shape = layout.dtype is float64, layout.shape
    own = drawing_levels() if levels.depth else ()
    if own:
        shape, _ = for_all_calls(own, shape)
    kind = (float64 if wide else float32).numpy

    def write(backend: Backend, raw: Any) -> None:
        part = source.reserve_uniform(shape, kind, of=part_of_graph(backend, raw, source))
        backend.kernel("create.random.open_uniform")(raw, *part, wide)

    def values() -> np.ndarray[Any, Any]:
        return source.open_uniform(shape, kind)

    made = new_filled(values, write, shape, float64, layout.device, False)
    return in_batches(made, own) if own else made


def draw_integers(
    generator: Generator,
    low: int,
    high: Any,
    shape: Shape,
    dtype: DType,
    device: DeviceLike,
    requires_grad: bool = False,
    layout: MemoryLayout | None = None,
    pin_memory: bool = False,
    like: tuple[Tensor, MemoryFormat | None] | None = None,
) -> Tensor:
    """Return integers from [low, high) in dtype on a device; for `like` see draw_numbers.

    Raises  RuntimeError if low or high - 1 is outside the range of dtype
    """
    if dtype is bool_:
        least, most = 0, 1
    elif dtype.is_floating_point:
        most = int(float(float_limits(dtype).max))
        least = -most
    else:
        limits = np.iinfo(dtype.numpy)
        least, most = int(limits.min), int(limits.max)
    for what, value in (("from", low), ("to - 1", high - 1)):
        if low < high and not least <= value <= most:
            raise RuntimeError(
                f"{what} is out of bounds for {dtype.name}: it is {value}, and {dtype.name} holds "
                f"{least} ... {most}"
            )

    order = None if like is None else order_like(*like)
    own = drawing_levels() if levels.depth else ()
    if own:
        shape, order = for_all_calls(own, shape, order)

    def values() -> np.ndarray[Any, Any]:
        return generator.integers(low, high, shape).astype(dtype.numpy, copy=False)

    def write(backend: Backend, raw: Any) -> None:
        part = generator.reserve_integers(
            low, high, shape, of=part_of_graph(backend, raw, generator)
        )
        backend.kernel("create.random.integers")(raw, *part)

    is_exact = not dtype.is_floating_point or max(-low, high - 1) <= largest_whole(dtype)
    asked = requires_grad and is_exact
    drawn: Any = new_filled(values, write, shape, dtype, device, asked, layout, pin_memory, order)
    if not is_exact:
        # Rounding to dtype may change the largest numbers to high, and the smallest to below low.
        drawn.clamp_(*ends_inside(dtype, low, high))
        drawn.requires_grad_(requires_grad)
    return in_batches(drawn, own) if own else drawn
