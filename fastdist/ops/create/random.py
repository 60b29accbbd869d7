"""Random tensors from Philox streams, with the same numbers on all devices and thread counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType, dtype_of, float32, int64
from ...core.errors import ShapeError
from ...core.memory_format import MemoryFormat, MemoryLayout
from ...core.moved_modules import earlier_names
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import before, composite
from ...dispatch.target import store_in_out
from ...graph.modes import modes
from ...interpreters.batched_draws import drawing_levels, stacked_draws
from ...interpreters.batched_tensor import in_batches, levels, unbatched
from ...interpreters.sparse_rules import refusal
from ...random_numbers.generator import Generator, default_generator, default_generator_of
from ...random_numbers.philox import FEW, blocks_for, few_normal, few_uniform
from ...tensor.axes import sizes_of
from ...tensor.broadcast import broadcast_shapes
from ...tensor.methods import DeviceLike, Number
from ...tensor.promotion import get_default_dtype
from ...tensor.tensor import Tensor, from_array, wrap
from ..refusals import require_floating_inputs
from ..rounded_ranges import largest_whole
from .allocation import elsewhere, fills_out, finish, like
from .draws import draw_integers, draw_numbers, generator_or_default
from .quick import quick_draws, quick_integers, quick_permutation

Generator.as_tensor = staticmethod(from_array)


@composite(homes="function", known_as="")
def get_rng_state() -> Tensor:
    """Return the state of the CPU's default generator, for set_rng_state."""
    return default_generator_of(CPU).get_state()  # type: ignore[no-any-return]


@composite(homes="function", known_as="")
def set_rng_state(new_state: Tensor) -> None:
    """Restore a state of the CPU's default generator that get_rng_state returned."""
    default_generator_of(CPU).set_state(new_state)


@before(quick_draws(few_uniform))
@composite(homes="function")
@fills_out
def rand(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn from the uniform distribution over [0, 1).

    Raises  RuntimeError for a negative length or an integer dtype, TypeError for a length like 2.5

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.rand(2, 3).max() < 1
        tensor(True)
    """
    source = generator_or_default(generator, device)
    how = (dtype, device, requires_grad, layout, pin_memory)
    return draw_numbers("rand", source, sizes_of(size), *how)


@before(quick_draws(few_normal))
@composite(homes="function")
@fills_out
def randn(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn from the normal distribution with mean 0 and standard deviation 1.

    Raises  RuntimeError for a negative length or an integer dtype, TypeError for a length like 2.5

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> torch.randn(2, 3, generator=generator).shape
        fastdist.Size([2, 3])
    """
    source = generator_or_default(generator, device)
    how = (dtype, device, requires_grad, layout, pin_memory)
    return draw_numbers("randn", source, sizes_of(size), *how)


@before(quick_integers)
@composite(homes="function")
@fills_out
def randint(
    low: int | None = None,
    high: int | tuple[int, ...] | None = None,
    size: int | Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return integers drawn uniformly from [low, high); randint(high, size) starts at 0.

    Raises  RuntimeError if low >= high or dtype is too small, TypeError if size is not a tuple

    Args:
        low: The smallest number that can be drawn; 0 if None.
        high: The upper bound, which is excluded; None: low is the upper bound.
        size: The lengths of the axes, as a tuple. If None, the arguments are (high, size).
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; int64 if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.randint(0, 10, (2, 3)).shape
        fastdist.Size([2, 3])
    """
    if size is None:
        low, high, size = 0, low, high
    elif low is None or high is None:
        low, high = 0, low if high is None else high
    for name, given in (("high", high), ("size", size)):
        if given is None:
            raise TypeError(f"randint() missing 1 required positional argument: {short_repr(name)}")
    if hasattr(size, "__index__"):
        raise TypeError(
            f"randint(): argument 'size' must be a tuple of integers, not int {short_repr(size)}; "
            f"randint(high, size) and randint(low, high, size) take it last"
        )
    require_int64(low, high)
    wanted = int64 if dtype is None else dtype_of(dtype)
    shape = sizes_of((size,))
    source = generator_or_default(generator, device)
    how = (wanted, device, requires_grad, layout, pin_memory)
    return draw_integers(source, low, high, shape, *how)


def require_int64(low: int, high: Any) -> None:
    """Raise ValueError unless both ends of a range are int64 numbers, whatever the dtype."""
    for what, value in (("from", low), ("to", high)):
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(
                f"Overflow when unpacking long long: {what} is {value}, and the ends of a range "
                "of random integers are in -2**63 ... 2**63 - 1"
            )


@before(quick_permutation)
@composite(homes="function")
@fills_out
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType = int64,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the integers from 0 to n - 1 in random order.

    Raises  RuntimeError if n is negative, or if dtype cannot hold each integer below n

    Args:
        n: The number of integers: the result has 0 to n - 1, each once.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; int64 by default.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    if n < 0:
        raise ShapeError(f"Trying to create tensor with negative dimension {n}: randperm({n})")
    wanted = dtype_of(dtype)
    most = largest_whole(wanted)
    if n - 1 > most:
        raise RuntimeError(
            f"value cannot be converted to type {wanted.name} without overflow: randperm({n}) "
            f"has numbers above {most}, which {wanted.name} does not hold each"
        )
    source = generator_or_default(generator, device)
    if elsewhere(device) is not None:
        # Like philox.permutation, this sorts by random 64-bit words, but here the words are signed.
        ends = -(1 << 63), 1 << 63
        words: Any = draw_integers(source, *ends, (n,), int64, device, False, layout, pin_memory)
        order = words.argsort().to(wanted)
        if requires_grad:
            unbatched(order).requires_grad_()
        return order  # type: ignore[no-any-return]
    own = drawing_levels() if levels.depth else ()
    if own:
        drawn = stacked_draws(own, (n,), lambda: source.permutation(n))
    else:
        drawn = source.permutation(n)
    drawn = drawn.astype(wanted.numpy, copy=False)
    made = finish(drawn, device, requires_grad, layout, pin_memory)
    return in_batches(made, own) if own else made


@composite(homes="function")
def rand_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return uniform numbers over [0, 1), with the shape, dtype and device of input.

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.rand_like(torch.zeros(2, 3)).shape
        fastdist.Size([2, 3])
    """
    wanted, where = like(input, dtype, device, "rand_like")
    source, order = generator_or_default(None, where), (input, memory_format)
    how = (wanted, where, requires_grad, layout, pin_memory)
    return draw_numbers("rand", source, input._layout.shape, *how, like=order)


@composite(homes="function")
def randn_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return normal numbers of mean 0 and standard deviation 1, with the shape, dtype and device of
    input.

    Raises  RuntimeError if the dtype is neither floating-point nor complex

    Args:
        input: The tensor whose shape, dtype and device are taken, floating-point or complex.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.randn_like(torch.zeros(2, 3)).shape
        fastdist.Size([2, 3])
    """
    wanted, where = like(input, dtype, device, "randn_like")
    source, order = generator_or_default(None, where), (input, memory_format)
    how = (wanted, where, requires_grad, layout, pin_memory)
    return draw_numbers("randn", source, input._layout.shape, *how, like=order)


@composite(homes="function")
def randint_like(
    input: Tensor,
    low: int,
    high: Any = None,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return integers as randint does, with the shape, dtype and device of input."""
    if high is None:
        low, high = 0, low
    require_int64(low, high)
    wanted, where = like(input, dtype, device, "randint_like")
    source, order = generator_or_default(None, where), (input, memory_format)
    how = (wanted, where, requires_grad, layout, pin_memory)
    return draw_integers(source, low, high, input._layout.shape, *how, like=order)


@composite(homes="function", out="cast", memory="apart")
def normal(
    mean: Any,
    std: Any = 1.0,
    size: int | Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return normal numbers. If `size` is given, `mean` and `std` are numbers. Otherwise, at least
    one is a tensor, and the two are broadcast.
    """
    require_std(std)
    if size is not None:
        drawn = randn(size, generator=generator, dtype=dtype, device=device)
        return drawn * std + mean  # type: ignore[no-any-return]
    layouts = [one._layout for one in (mean, std) if isinstance(one, Tensor)]
    layout, shape = layouts[0], broadcast_shapes("normal", [one.shape for one in layouts])
    drawn = randn(shape, generator=generator, dtype=layout.dtype, device=layout.device)
    return drawn * std + mean  # type: ignore[no-any-return]


def require_std(std: Tensor | float) -> None:
    """Raise RuntimeError for a standard deviation that is negative or NaN. Tensors on other devices
    than the CPU are not checked, because a check would wait for the device.
    """
    if isinstance(std, Tensor):
        if std._layout.device is CPU and not np.all(unbatched(std).detach().to_numpy() >= 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def _bernoulli_of_few(input: Tensor, *others: object, **named: object) -> Any:
    """Return draws for few float32 probabilities on the CPU, otherwise NOT_TAKEN."""
    if others or named or input.__class__ not in modes.plain:
        return NOT_TAKEN
    layout = input._layout
    if layout.dtype is not float32 or not layout.ordinary or not 0 < layout.numel <= FEW:
        return NOT_TAKEN
    chance = input._array
    low, high = chance.item(chance.argmin()), chance.item(chance.argmax())  # NaN comes first
    if not (low >= 0 and high <= 1):
        return NOT_TAKEN  # the general function raises an explained error
    seed, first = default_generator.reserve(blocks_for(layout.numel, 1))
    drawn = few_uniform(seed, first, layout.numel).reshape(layout.shape)
    return wrap((drawn < chance).astype(chance.dtype), layout)


@composite(quick=_bernoulli_of_few)
def bernoulli(
    input: Tensor,
    p: Tensor | Number | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return 1 with the probability that input or p gives, else 0.

    Raises  RuntimeError for a probability outside of [0, 1]; tensors are checked on the CPU only

    Args:
        input: The probability of each element. If p is given, only its shape and dtype are used.
        p: One probability for all elements, or a tensor of probabilities.
        generator: The generator to draw from; the default one if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    if input._layout.is_sparse:
        raise refusal("bernoulli", input)
    chance: Any = input.detach() if p is None else p
    if isinstance(chance, Tensor):
        require_floating_inputs("bernoulli_tensor_cpu_p_", chance)
    # Tensors on other devices are not checked, because a check would wait for the device.
    is_seen = not isinstance(chance, Tensor) or chance._layout.device is CPU
    given = unbatched(chance).to_numpy() if isinstance(chance, Tensor) and is_seen else chance
    if is_seen and not np.all((given >= 0) & (given <= 1)):
        raise RuntimeError(f"bernoulli expects p to be in [0, 1], but got p={short_repr(chance)}")
    where = input._layout.device
    dtype = input._layout.dtype if input._layout.dtype.is_floating_point else get_default_dtype()
    # For half types, float32 numbers are drawn: half numbers are too coarse for small chances.
    wide = dtype.computes_in
    drawn: Any = rand(input._layout.shape, generator=generator, dtype=wide, device=where)
    kept = (input if out is None else out)._layout.dtype
    return store_in_out("bernoulli", out, (drawn < chance).to(kept), (), "cast")


__getattr__ = earlier_names(__name__)
