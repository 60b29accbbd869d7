"""`out=`: a result written into a tensor that the caller gives."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import DTypeError, ShapeError, SharedMemoryError
from ..core.shared_block import block_of
from ..devices.backend import backend_of
from ..graph.modes import tls
from ..tensor.layout import Shape
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of
from .memory import require_apart, require_writable
from .op import Op
from .promotion import can_cast


def write_out(op: Op, out: Tensor, result: Tensor, operands: Sequence[Any]) -> Tensor:
    """Write result into out and return out.

    Raises  RuntimeError when a gradient would be lost; ShapeError, DTypeError when out cannot hold
            the result
    """
    if op.kind == "pointwise" and isinstance(out, Tensor):
        require_apart(out, operands)
        if op.keeps_dtype and out.facts.dtype is not result.facts.dtype:
            raise DTypeError(
                f"Found dtype {out.facts.dtype.name} but expected {result.facts.dtype.name}: "
                f"{op.name} writes into an out of its result's dtype"
            )
    return _write(op.name, out, result, operands)


def _write(name: str, out: Tensor, result: Tensor, operands: Sequence[Any]) -> Tensor:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be a Tensor, not {type(out).__name__}")
    if tls.grad and any(isinstance(o, Tensor) and o.edge is not None for o in (*operands, out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the "
            "arguments requires grad."
        )
    if not can_cast(result.facts.dtype, out.facts.dtype):
        raise DTypeError(
            f"result type {result.facts.dtype.name} can't be cast to the desired output type "
            f"{out.facts.dtype.name}"
        )
    if out.facts.shape != result.facts.shape:
        _resize(name, out, result.facts.shape)
    require_writable(out)
    backend_of(out.facts.device.type).copy_into(out.array, result.array)
    storage_of(out).bump()
    return out


def _resize(name: str, out: Tensor, shape: Shape) -> None:
    """Give out memory of shape, with PyTorch's warning if it had elements.

    Raises  SharedMemoryError for memory that other processes share; ShapeError for a view, for what
            views are made of, and for what stands in a graph: they
            keep the shape that others know them by
    """
    layout = out.facts
    if block_of(out.array) is not None:
        raise SharedMemoryError(
            f"Trying to resize storage that is not resizable: {name}: out has shape "
            f"{layout.shape}, the result has {shape}, and other processes share the memory of out; "
            "give an out of that shape, or one that is not shared"
        )
    is_view = out.extra is not None and out.extra.base is not None
    if is_view or out.edge is not None or storage_of(out).living_views():
        raise ShapeError(
            f"{name}: out has shape {layout.shape}, the result has {shape}; give an out of that "
            "shape, or one that is no view, has none and stands in no graph, which takes any"
        )
    if layout.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(layout.shape)}, which does not match the required output shape {list(shape)}. "
            "This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements: give an out of the result's shape, or an "
            "empty one.",
            UserWarning,
            stacklevel=2,
        )
    device = layout.device
    out.array = backend_of(device.type).empty(shape, layout.dtype.numpy, device.index)
    out.facts = layout_of(out.array, device)


def given_out(name: str, out: Tensor | None, result: Tensor, operands: Sequence[Any]) -> Tensor:
    """Return result, or out with result written into it: what a composite does with its out=."""
    return result if out is None else _write(name, out, result, operands)


def with_out_parameter(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of function with an `out=`."""
    signature = inspect.signature(function)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    return signature.replace(parameters=[*signature.parameters.values(), out])


def written_parts(name: str, out: Any, result: Any, operands: Sequence[Any]) -> Any:
    """Return result, a tensor or a tuple of them, or what `out`, as many, holds after writing."""
    if out is None:
        return result
    if not isinstance(result, tuple):
        return _write(name, out, result, operands)
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors")
    parts = [_write(name, o, r, operands) for o, r in zip(out, result, strict=True)]
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
