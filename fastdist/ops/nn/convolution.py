"""Convolutions of signals, images and volumes, and transposed convolutions, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple, cast

from ...core.dtypes import WORDS
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import composite
from ...dispatch.op import PLAIN
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor
from ..channels_last import channels_last_order, in_format_of
from .convolution_sums import convolve, convolve_back

Ints = tuple[int, ...]
_NAMES = ("stride", "padding", "dilation", "groups")
_INTS = frozenset({int})


def _kept_geometry(name: str, axes: int) -> Callable[..., Any]:
    """Return a fast path for convolutions of a batch in C order, which caches their geometry. The
    fast path returns NOT_TAKEN for all other calls.
    """

    def quick(*args: Any, **named: Any) -> Any:
        if not 2 <= len(args) <= 7 or (named and "bias" in named):
            return NOT_TAKEN
        input, weight, bias, *rest = args if len(args) > 2 else (*args, None)
        if input.__class__ not in PLAIN or weight.__class__ not in PLAIN:
            return NOT_TAKEN
        if bias is not None and bias.__class__ not in PLAIN:
            return NOT_TAKEN
        for one in (*rest, *named.values()) if named else rest:
            # Floats are excluded, because the key 1.0 would find the cache entry of the key 1.
            kind = one.__class__
            if kind is tuple and _INTS.issuperset(map(type, one)):
                continue
            if kind is not int and kind is not str:
                return NOT_TAKEN
        layout = input._layout
        of_bias = None if bias is None else bias._layout
        key = (name, weight._layout, of_bias, *rest, *named.items())
        found = layout.routes.get(key)
        if found is None:
            given = dict(zip(_NAMES, rest, strict=False)) | named
            found = _new_geometry(name, axes, (layout, weight._layout, of_bias), given)
            if found is None:
                return NOT_TAKEN
            layout.routes.remember(key, found)
        return convolve(input, weight, bias, *found)

    return quick


def _new_geometry(
    name: str, axes: int, layouts: tuple[Layout, Layout, Layout | None], given: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Return the attributes of a convolution of a batch in C order. Return None for other memory
    orders, and for invalid arguments.
    """
    input, weight, bias = layouts
    if len(input.shape) != axes + 2 or not (input.contiguous and weight.contiguous):
        return None
    if input.is_sparse or not given.keys() <= {*_NAMES} or given.get("groups", 1).__class__ is str:
        return None
    padding = given.get("padding", 0)
    how = _Asked(
        name, False, _ints(given.get("stride", 1), axes),
        padding if isinstance(padding, str) else _ints(padding, axes),
        _ints(given.get("dilation", 1), axes), (0,) * axes, given.get("groups", 1),
    )  # fmt: skip
    try:
        _require_one_dtype(input, weight, bias)
        size = _geometry(input.shape, weight.shape, None if bias is None else bias.shape, how)
    except (RuntimeError, TypeError, ValueError):
        return None  # the general path raises an error with an explanation
    return *size, how.groups


@composite(homes="function functional", quick=_kept_geometry("conv1d", 1))
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of signals with weight, plus bias. `padding` is the number of
    zeros added at each end, "valid" (no zeros) or "same" (so many zeros that the length does not
    change).

    Shape   (n, c, length) or (c, length), (o, c / groups, kernel), (o) -> (n, o, positions)
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(homes="function functional", quick=_kept_geometry("conv2d", 2))
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of images with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *image) or (c, *image), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    Raises  RuntimeError if the channels or the dtypes do not fit the weight, the kernel is larger
            than the padded image, or input has neither 3 nor 4 axes

    Args:
        input: Images of shape (n, channels, height, width) or (channels, height, width), in the
            dtype of weight.
        weight: The kernels, of shape (out_channels, channels / groups, height, width).
        bias: One number for each channel of the result, or None.
        stride: The distance between positions of the kernel, one number or one for each axis.
        padding: The number of zeros added at each end, one number or one for each axis; "same" or
            "valid".
        dilation: The distance between neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided.

    Example:
        >>> F.conv2d(torch.zeros(1, 3, 6, 6), torch.zeros(8, 3, 3, 3), padding=1).shape
        fastdist.Size([1, 8, 6, 6])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(homes="function functional", quick=_kept_geometry("conv3d", 3))
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of volumes with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *volume) or (c, *volume), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite(homes="function functional")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the transposed convolution of signals, which is the adjoint of conv1d, plus bias.

    Shape   (n, c, length) or (c, length), (c, o / groups, kernel), (o) -> (n, o, positions)
    """
    how = stride, padding, dilation, output_padding, groups
    return _transposed("conv_transpose1d", 1, input, weight, bias, *how)


@composite(homes="function functional")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the transposed convolution of images, which is the adjoint of conv2d, plus bias.

    Shape   (n, c, *image) or (c, *image), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
    how = stride, padding, dilation, output_padding, groups
    return _transposed("conv_transpose2d", 2, input, weight, bias, *how)


@composite(homes="function functional")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the transposed convolution of volumes, which is the adjoint of conv3d, plus bias.

    Shape   (n, c, *volume) or (c, *volume), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
    how = stride, padding, dilation, output_padding, groups
    return _transposed("conv_transpose3d", 3, input, weight, bias, *how)


@composite(homes="function")
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    transposed: bool,
    output_padding: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Return a convolution of a batch, transposed or not, along the spatial axes of weight."""
    how = _Asked(
        "convolution", bool(transposed), _ints(stride), _ints(padding), _ints(dilation),
        _ints(output_padding), groups,
    )  # fmt: skip
    return _convolved(input, weight, bias, how)


class _Asked(NamedTuple):
    """The arguments of a convolution other than tensors, with one number for each spatial axis."""

    name: str
    transposed: bool
    stride: Ints
    padding: Ints | str
    dilation: Ints
    output_padding: Ints
    groups: int


def _conv(
    name: str, axes: int, input: Tensor, weight: Tensor, bias: Tensor | None,
    stride: int | Sequence[int], padding: int | str | Sequence[int],
    dilation: int | Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    margin = padding if isinstance(padding, str) else _ints(padding, axes)
    none = (0,) * axes
    how = _Asked(
        name, False, _ints(stride, axes), margin, _ints(dilation, axes), none,
        index(groups),
    )  # fmt: skip
    return _of_batch(axes, input, weight, bias, how)


def _transposed(
    name: str, axes: int, input: Tensor, weight: Tensor, bias: Tensor | None,
    stride: int | Sequence[int], padding: int | Sequence[int],
    dilation: int | Sequence[int], output_padding: int | Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    how = _Asked(
        name, True, _ints(stride, axes), _ints(padding, axes), _ints(dilation, axes),
        _ints(output_padding, axes), index(groups),
    )  # fmt: skip
    return _of_batch(axes, input, weight, bias, how)


def _of_batch(axes: int, input: Tensor, weight: Tensor, bias: Tensor | None, how: _Asked) -> Tensor:
    found = len(input._layout.shape)
    if found == axes + 2:
        found_in_c_order = _convolved(input, weight, bias, how)
        if input._layout.contiguous and weight._layout.contiguous:
            return found_in_c_order
        return _in_format(input, weight, found_in_c_order)
    if found != axes + 1:
        raise ShapeError(
            f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {how.name}, but "
            f"got input of size: {list(input._layout.shape)}"
        )
    return _convolved(input.unsqueeze(0), weight, bias, how).squeeze(0)


def _in_format(input: Tensor, weight: Tensor, result: Tensor) -> Tensor:
    """Return the result in channels_last if the input or the weight is in channels_last."""
    like = input if channels_last_order(input._layout) is not None else weight
    return cast(Tensor, in_format_of(like, result))


def _convolved(input: Tensor, weight: Tensor, bias: Tensor | None, how: _Asked) -> Tensor:
    layouts = input._layout, weight._layout, None if bias is None else bias._layout
    _require_one_dtype(*layouts)
    shapes = [None if one is None else one.shape for one in layouts]
    op = convolve_back if how.transposed else convolve
    return op(input, weight, bias, *_geometry(*shapes, how), how.groups)


def _ints(value: Any, axes: int = 1) -> Ints:
    if isinstance(value, tuple | list):
        numbers = tuple([index(one) for one in value])
        return numbers * axes if len(numbers) == 1 else numbers
    return (index(value),) * axes


def _require_one_dtype(input: Layout, weight: Layout, bias: Layout | None) -> None:
    given = input.dtype
    if given is not weight.dtype:
        raise DTypeError(
            f"Input type (torch.{WORDS[given]}Tensor) and weight type "
            f"(torch.{WORDS[weight.dtype]}Tensor) should be the same; cast one with .to()"
        )
    if bias is not None and bias.dtype is not given:
        raise DTypeError(
            f"Input type ({WORDS[given].lower()}) and bias type "
            f"({WORDS[bias.dtype].lower()}) should be the same; cast one with .to()"
        )
    if given.name == "bool":
        raise NotImplementedError("convolution is not implemented for 'Bool'; cast with .to()")


@lru_cache(maxsize=1024)
def _geometry(
    shape: Shape, weight: Shape, bias: Shape | None, how: _Asked
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the result's size, the stride, the padding at the beginning, and the dilation.

    Raises  RuntimeError for shapes or arguments that do not fit together
    """
    axes = len(weight) - 2
    stride = _one_each("stride", how.stride, axes)
    dilation = _one_each("dilation", how.dilation, axes)
    if isinstance(how.padding, str):
        padding = _named_padding(how.padding, stride, dilation, weight[2:])
    else:
        padding = _one_each("padding", how.padding, axes)
    more = _one_each("output_padding", how.output_padding, axes)
    if min(padding, default=0) < 0:
        raise ShapeError(f"negative padding is not supported: {short_repr(padding)}")
    if min(more, default=0) < 0:
        raise ShapeError(f"negative output_padding is not supported: {short_repr(more)}")
    if min(stride, default=1) <= 0:
        raise ShapeError(f"non-positive stride is not supported: {short_repr(stride)}")
    if min(dilation, default=1) < 0:
        raise ShapeError(f"dilation should be greater than zero, got {short_repr(dilation)}")
    if min(dilation, default=1) == 0:
        raise ShapeError(f"non-positive dilation is not supported: {short_repr(dilation)}")
    _require_channels(shape, weight, bias, how)
    if how.padding == "same":
        return shape[2:], stride, padding, dilation
    size = _size(shape, weight, stride, padding, dilation, more, how)
    return size, stride, padding, dilation


def _one_each(name: str, numbers: Ints, axes: int) -> Ints:
    if len(numbers) == 1:
        return numbers * axes
    if len(numbers) != axes:
        raise ShapeError(
            f"expected {name} to be a single integer value or a list of {axes} values to match "
            f"the convolution dimensions, but got {name}={short_repr(list(numbers))}"
        )
    return numbers


def _named_padding(name: str, stride: Ints, dilation: Ints, kernel: Shape) -> Ints:
    if name == "valid":
        return (0,) * len(kernel)
    if name != "same":
        raise ShapeError(
            f"Invalid padding string: {short_repr(name)}; known are 'valid' and 'same'"
        )
    if any(step != 1 for step in stride):
        raise ShapeError("padding='same' is not supported for strided convolutions")
    return tuple([wide * (k - 1) // 2 for wide, k in zip(dilation, kernel, strict=True)])


def _require_channels(shape: Shape, weight: Shape, bias: Shape | None, how: _Asked) -> None:
    groups, sizes = how.groups, list(weight)
    if groups <= 0:
        raise ShapeError(f"non-positive groups is not supported: {groups}")
    if len(shape) != len(weight):
        raise ShapeError(
            f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight "
            f"{short_repr(sizes)}, but got {len(shape)}-dimensional input of size {list(shape)} "
            "instead"
        )
    if weight[0] < groups or weight[0] % groups:
        least = f"at least {groups}" if weight[0] < groups else f"divisible by {groups}"
        raise ShapeError(
            f"Given groups={groups}, expected weight to be {least} at dimension 0, but got weight "
            f"of size {short_repr(sizes)} instead"
        )
    inputs, outputs = weight[1] * groups, weight[0]
    given = f"Given groups={groups}"
    if how.transposed:
        inputs, outputs, given = outputs, inputs, f"Given transposed={1}"
    if shape[1] != inputs:
        raise ShapeError(
            f"{given}, weight of size {short_repr(sizes)}, expected input{list(shape)} to have "
            f"{inputs} "
            f"channels, but got {shape[1]} channels instead"
        )
    if bias is not None and bias != (outputs,):
        given = "Given transposed=1, weight" if how.transposed else "Given weight"
        raise ShapeError(
            f"{given} of size {short_repr(sizes)}, expected bias to be 1-dimensional with "
            f"{outputs} elements, "
            f"but got bias of size {list(bias)} instead"
        )


def _size(
    shape: Shape, weight: Shape, stride: Ints, padding: Ints, dilation: Ints, more: Ints,
    how: _Asked,
) -> Ints:  # fmt: skip
    """Return the size of the result. Raises RuntimeError if the input is smaller than the
    kernel.
    """
    image, kernel = shape[2:], weight[2:]
    if 0 in kernel:
        raise ShapeError(f"convolution: kernel sizes must be positive, got weight {list(weight)}")
    seen = [wide * (k - 1) + 1 for wide, k in zip(dilation, kernel, strict=True)]
    if not how.transposed:
        padded = [n + 2 * p for n, p in zip(image, padding, strict=True)]
        if any(k > n for k, n in zip(seen, padded, strict=True)):
            raise ShapeError(
                f"Calculated padded input size per channel: ({_times(padded)}). Kernel size: "
                f"({_times(seen)}). Kernel size can't be greater than actual input size"
            )
        return tuple([(n - k) // s + 1 for n, k, s in zip(padded, seen, stride, strict=True)])
    if any(one >= s and one >= d for one, s, d in zip(more, stride, dilation, strict=True)):
        words = (("output_padding", more), ("stride", stride), ("dilation", dilation))
        raise ShapeError(
            "output padding must be smaller than either stride or dilation, but got "
            + " ".join([f"{name}: {_times(numbers)}" for name, numbers in words])
        )
    ends = zip(image, stride, padding, seen, more, strict=True)
    size = tuple([(n - 1) * s - 2 * p + k + one for n, s, p, k, one in ends])
    if min(size, default=1) < 1:
        raise ShapeError(
            f"Given input size per channel: ({_times(image)}). Calculated output size per channel: "
            f"({_times(size)}). Output size is too small"
        )
    return size


def _times(numbers: Any) -> str:
    return " x ".join(map(str, numbers))
