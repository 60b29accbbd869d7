"""Hooks that pack tensors when Nodes save them, and unpack them when they are read.

A Node that is recorded while hooks are open holds a PackedTensor instead of the saved tensor. The
PackedTensor has the few attributes of a Tensor that Nodes read. It calls the unpack hook when its
`_array` is read. While hooks are open in any thread, `modes.tracers` makes every op take the
general path, which packs the saved values. While no hooks are open, ops check nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ..core.errors import GraphError
from ..core.interpreter import Interpreter, list_open
from ..tensor.layout import Layout
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor, wrap
from .modes import count_open, no_grad

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class _ThreadHooks(threading.local):
    # The open hooks, innermost last; per thread, as in PyTorch. The stack is a tuple, so that code
    # can restore the earlier hooks by one assignment, which no Ctrl-C can interrupt: see Note
    # [Ctrl-C and grad mode]. After the assignment the code calls `count_hooks`.
    stack: tuple[tuple[Pack, Unpack], ...] = ()
    # The number of this thread's hooks that `modes.tracers` counts. If the number is too high, ops
    # are only slower.
    counted = 0
    disabled: str | None = None


class _Packing(Interpreter):
    """An interpreter that makes ops take the general path, which packs saved values."""

    order = 5


open_hooks = _hooks = _ThreadHooks()
_packing: Final = _Packing()
# The edge of each PackedTensor. It differs from every saved edge, so that unpack_input makes a
# Tensor with the saved edge.
_UNKNOWN: Any = object()


def push_hooks(pack: Pack, unpack: Unpack) -> None:
    """Pack the values that this thread saves from now on.

    Raises  RuntimeError while hooks are disabled
    """
    if _hooks.disabled is not None:
        raise GraphError(_hooks.disabled)
    # Count first: an op that does not see the count would not pack what it saves.
    count_hooks(len(_hooks.stack) + 1)
    _hooks.stack = (*_hooks.stack, (pack, unpack))


def pop_hooks() -> None:
    """Remove the innermost hooks."""
    _hooks.stack = _hooks.stack[:-1]
    count_hooks(len(_hooks.stack))


def count_hooks(number: int) -> None:
    """Set the number of this thread's open hooks, so that ops take the general path if needed."""
    if number:
        list_open(_packing, True)
    count_open(_hooks, number)
    if not number:
        list_open(_packing, False)


def disable_hooks(message: str | None) -> str | None:
    """Make `push_hooks` raise an error with `message` in this thread, or allow hooks again if
    `message` is None. Return the previous message.

    Raises  RuntimeError with `message` while hooks are open
    """
    if message is not None and _hooks.stack:
        raise GraphError(message)
    before, _hooks.disabled = _hooks.disabled, message
    return before


class PackedTensor:
    """Replaces a saved tensor. Its `_array` is that of the Tensor from the unpack hook."""

    __slots__ = ("_extra", "_layout", "_packed", "_unpack")
    # In-place changes cannot be detected through hooks.
    _storage: Storage | None = None
    _edge: Any = _UNKNOWN

    def __init__(self, tensor: Tensor, hooks: tuple[Pack, Unpack]) -> None:
        pack, self._unpack = hooks
        self._layout, self._extra = tensor._layout, tensor._extra
        before = tensor._version
        with no_grad():
            self._packed = pack(tensor)
        if tensor._version != before:
            raise GraphError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook can not be modified by in-place operations as this can lead "
                "to unexpected side-effects: change a clone()"
            )

    @property
    def _array(self) -> Any:
        """Call the unpack hook, and return the array of its result.

        Raises  TypeError if the hook does not return a Tensor, RuntimeError if that Tensor has
                another shape, dtype or device than the packed tensor
        """
        tensor = self._unpack(self._packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        given, wanted = tensor._layout, self._layout
        same = given.shape == wanted.shape and given.dtype is wanted.dtype
        if not same or given.device is not wanted.device:
            raise GraphError(
                f"the saved tensor unpack_hook returned {given.dtype.name} of shape {given.shape} "
                f"on {given.device}; {wanted.dtype.name} of shape {wanted.shape} on "
                f"{wanted.device} was packed"
            )
        return tensor._array


class PackedOutput:
    """Replaces a Node's saved output, which without hooks is (array, storage, version, extra)."""

    __slots__ = ("_extra", "_packed", "_storage")

    def __init__(self, packed: PackedTensor, extra: Any) -> None:
        self._packed, self._extra = packed, extra
        self._storage = Storage()

    def __iter__(self) -> Iterator[Any]:
        return iter((self._packed._array, self._storage, 0, self._extra))


def pack_saved(node: Any, names: Iterable[str], operands: Sequence[Any]) -> None:
    """Pack the operands and outputs that a Node has just saved; `names` are the operands' names.

    Note    called only while modes.tracers is not zero
    """
    if not _hooks.stack:
        return
    hooks = _hooks.stack[-1]
    for name, operand in zip(names, operands, strict=True):
        # Nodes save numbers as tensors, but hooks get only the user's tensors.
        saved = isinstance(operand, Tensor) and getattr(node, name, None) is not None
        if saved and not _is_number(operand):
            setattr(node, name, PackedTensor(operand, hooks))
    out = getattr(node, "out", None)
    if out is not None:
        node.out = _packed_output(out, node.output_layout, node, hooks)
    outs = getattr(node, "outs", None)
    if outs is not None:
        parts = enumerate(zip(outs, node.output_layout, strict=True))
        node.outs = [
            _packed_output(one, layout, node.edge_of(i), hooks) for i, (one, layout) in parts
        ]


def _packed_output(saved: Any, layout: Layout, edge: Any, hooks: tuple[Pack, Unpack]) -> Any:
    array, _, _, extra = saved
    alias = wrap(array, layout)
    alias._edge = edge
    return PackedOutput(PackedTensor(alias, hooks), extra)


def pack_one(tensor: Tensor) -> Any:
    """Return tensor packed by this thread's innermost hooks, or tensor itself if there are none."""
    return PackedTensor(tensor, _hooks.stack[-1]) if _hooks.stack else tensor


def has_hooks() -> bool:
    """Return whether this thread has open hooks for saved values."""
    return bool(_hooks.stack)


def _is_number(tensor: Tensor) -> bool:
    array = tensor._array
    return (
        not tensor._layout.shape
        and tensor._edge is None
        and array.__class__ is np.ndarray
        and not array.flags.writeable
    )
