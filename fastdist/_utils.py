"""Names that third-party packages import from PyTorch's _utils.py, such as flat buffer helpers."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .core.caller_warning import warn_caller
from .core.device import Device
from .core.dtypes import DType
from .core.folded_frames import folds
from .core.missing import explain_missing
from .core.short_repr import short_repr
from .devices.gpus import device_count
from .ops.shape.joining import cat
from .serialization.rebuilding import get_layout as _get_layout  # noqa: F401
from .serialization.rebuilding import rebuild_parameter as _rebuild_parameter  # noqa: F401
from .serialization.rebuilding import (  # noqa: F401
    rebuild_parameter_with_state as _rebuild_parameter_with_state,
)
from .serialization.rebuilding import rebuild_sparse_tensor as _rebuild_sparse_tensor  # noqa: F401
from .serialization.rebuilding import rebuild_tensor as _rebuild_tensor  # noqa: F401
from .serialization.rebuilding import rebuild_tensor_v2 as _rebuild_tensor_v2  # noqa: F401
from .serialization.rebuilding import rebuild_tensor_v3 as _rebuild_tensor_v3  # noqa: F401
from .tensor.tensor import Tensor

__all__ = ["ExceptionWrapper", "KeyErrorMessage", "classproperty", "is_compiling", "try_import"]


@folds
def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors of one dtype, concatenated into a vector."""
    return cat([tensor.reshape(-1) for tensor in tensors])


@folds
def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return consecutive parts of a vector, viewed with the shapes of `tensors`."""
    parts: list[Tensor] = []
    start = 0
    for tensor in tensors:
        count = tensor.numel()
        parts.append(flat.narrow(0, start, count).view(tensor.shape))
        start += count
    return tuple(parts)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yield lists of tensors of the same type. A list contains tensors of at most `size_limit`
    bytes in total, or one larger tensor.
    """
    open_lists: dict[Any, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        held, bytes_held = open_lists.get(tensor.type(), ([], 0))
        if held and bytes_held + size > size_limit:
            yield held
            held, bytes_held = [], 0
        open_lists[tensor.type()] = [*held, tensor], bytes_held + size
    for held, _ in open_lists.values():
        yield held


def _reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """Return `tensors` in another order, in which their types occur in the same order as in
    `ordered_tensors`.
    """
    by_kind = defaultdict[Any, list[Tensor]](list)
    for tensor in tensors:
        by_kind[tensor.type()].append(tensor)
    following = {kind: iter(found) for kind, found in by_kind.items()}
    return tuple(next(following[tensor.type()]) for tensor in ordered_tensors)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device.

    Raises  ValueError for a device without an index

    Args:
        device: A Device, its name, or an index, which is returned unchanged.
        optional: Whether a device without an index means the current GPU.
        allow_cpu: Whether to return -1 for the CPU instead of raising.
    """
    if isinstance(device, str):
        device = Device(device)
    index = device if isinstance(device, int) else None
    if isinstance(device, Device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if index is not None:
        return index
    if not optional:
        raise ValueError(
            f"Expected a device with a specified index or an integer, but got: {short_repr(device)}"
        )
    current: int = importlib.import_module(".cuda", __package__).current_device()
    return current


def _get_available_device_type() -> str | None:
    """Return "cuda" if there is a GPU, else None."""
    return "cuda" if device_count() else None


def _get_all_device_indices() -> list[int] | None:
    """Return the indices of the GPUs; None if there are none."""
    return list(range(device_count())) or None


def _element_size(dtype: DType) -> int:
    """Return the number of bytes of an element."""
    if not isinstance(dtype, DType):
        raise RuntimeError(f"expected a dtype, but got {type(dtype).__name__}")
    return dtype.itemsize


def _import_dotted_name(name: str) -> Any:
    """Return the object with an absolute name, such as "package.module.thing"."""
    first, *others = name.split(".")
    found: Any = __import__(first)
    for part in others:
        found = getattr(found, part)
    return found


def is_compiling() -> bool:
    """Return False: fastdist does not compile programs. `compiler.is_compiling` replaces this."""
    warn_caller("`_utils.is_compiling` is deprecated. Use `compiler.is_compiling` instead.")
    return False


def try_import(module_name: str) -> ModuleType | None:
    """Return a module, or None if it does not exist."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            return None
        raise


class KeyErrorMessage(str):
    """A message that keeps its line breaks in a KeyError, which shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception from another thread or process, with its traceback as text.

    Args:
        exc_info: (type, exception, traceback); None means the exception that is being handled.
        where: The place where the exception was raised, such as "in worker 3"; for the message.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        info: Any = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same type, whose message contains the original traceback.

        Raises  RuntimeError for a type whose constructor does not accept a single message
        """
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        message = KeyErrorMessage(text) if self.exc_type is KeyError else text
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(text) from None
        raise error


class _ClassPropertyDescriptor:
    def __init__(self, function: Any) -> None:
        self.fget = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        kind = type(instance) if owner is None else owner
        return self.fget.__get__(instance, kind)()


def classproperty(func: Any) -> Any:
    """Return a class attribute whose value is computed by a method of the class."""
    wrapped = func if isinstance(func, classmethod | staticmethod) else classmethod(func)
    return _ClassPropertyDescriptor(wrapped)


explain_missing(__name__)
