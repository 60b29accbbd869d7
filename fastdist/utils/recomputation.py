"""One checkpointed call: the record of its saved values, and its recomputation."""

from __future__ import annotations

import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ..core.folded_frames import OUR_FILES
from ..engine.engine import current_graph_task, queue_callback
from ..graph.modes import enable_grad, tls
from ..graph.saved_tensors import count_hooks, open_hooks, pack_one, push_hooks
from ..interpreters.autocast import casting_as, casting_now
from ..interpreters.batched_tensor import Batched, batched
from ..interpreters.batching import levels_now, using_levels
from ..random_numbers.generator import Bookmark, default_generators
from ..tensor.tensor import Tensor, wrap


class CheckpointError(RuntimeError):
    """Raised if the second run of a checkpointed function saved other values than the first."""


class _EnoughComputed(BaseException):
    """Raised to stop a recomputation once it has all values that the first run saved."""


class _Holder:
    """The object that a Node saves instead of a tensor."""

    __slots__ = ("__weakref__", "index", "tensor")

    def __init__(self, index: int) -> None:
        self.index = index
        self.tensor: Tensor | None = None


class Frame:
    """One checkpointed call: its function and arguments, and a holder for each saved value.

    Thread  several threads of one backward pass may call `unpack`; `_lock` lets only one recompute
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        context: AbstractContextManager[Any],
        *,
        preserve: bool,
        compares: bool,
        debug: bool,
        early_stop: bool,
    ) -> None:
        args, kwargs = arguments
        self._function, self._context = function, context
        self._args = [_Kept(arg) for arg in args]
        self._kwargs = {name: _Kept(arg) for name, arg in kwargs.items()}
        self.draws = Draws() if preserve else None
        self._casting, self._levels = casting_now(), levels_now()
        self._compares, self._debug, self._early_stop = compares, debug, early_stop
        self._holders: list[weakref.ref[_Holder]] = []
        self._facts: list[str] = []
        self._lines: list[str] = []
        self._lock = threading.RLock()

    def pack(self, tensor: Tensor) -> _Holder:
        """Return a holder without the tensor, and record the tensor's shape, dtype and device."""
        holder = _Holder(len(self._holders))
        self._holders.append(weakref.ref(holder))
        self._facts.append(_facts(tensor))
        if self._debug:
            self._lines.append(_line())
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """Return the value for a holder; recompute all values if this pass has not done so yet.

        Raises  CheckpointError if the second run saves other values than the first
        """
        with self._lock:
            if holder.tensor is None:
                found = self._compute()
                for reference, computed in zip(self._holders, found, strict=True):
                    waiting = reference()
                    if waiting is not None:
                        waiting.tensor = computed
                if current_graph_task() is not None or tls.inline_pass is not None:
                    queue_callback(self._forget)
            tensor = holder.tensor
            assert tensor is not None
            return tensor

    def _forget(self) -> None:
        """Release the values when the pass ends; the next pass of the graph recomputes them."""
        with self._lock:
            for reference in self._holders:
                holder = reference()
                if holder is not None:
                    holder.tensor = None

    def _compute(self) -> list[Tensor]:
        found: list[Tensor] = []
        lines: list[str] = []
        wanted = len(self._holders)

        def keep(tensor: Tensor) -> Tensor:
            found.append(tensor.detach())
            if self._debug:
                lines.append(_line())
            if self._early_stop and len(found) == wanted:
                raise _EnoughComputed
            return found[-1]

        args = [one.again() for one in self._args]
        kwargs = {name: one.again() for name, one in self._kwargs.items()}
        with ExitStack() as stack:
            if self.draws is not None:
                stack.enter_context(self.draws.again())
            stack.enter_context(casting_as(self._casting))
            stack.enter_context(using_levels(self._levels))
            stack.enter_context(self._context)
            stack.enter_context(enable_grad())
            before = open_hooks.stack
            try:
                push_hooks(keep, lambda tensor: tensor)
                self._function(*args, **kwargs)
            except _EnoughComputed:
                pass
            finally:
                # If Ctrl-C left `keep` in place, it would stop the computations of other code.
                open_hooks.stack = before
                count_hooks(len(before))
        self._require_same(found, lines)
        return found

    def _require_same(self, found: Sequence[Tensor], lines: Sequence[str]) -> None:
        if len(found) != len(self._holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\nNumber of tensors saved during forward: "
                f"{len(self._holders)}\nNumber of tensors saved during recomputation: {len(found)}"
                + self._first_other_line(lines)
            )
        if not self._compares:
            return
        other = [i for i, tensor in enumerate(found) if _facts(tensor) != self._facts[i]]
        if other:
            told = "\n".join(
                f"tensor at position {i}:\nsaved metadata: {self._facts[i]}\nrecomputed metadata: "
                f"{_facts(found[i])}"
                for i in other
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n{told}"
                + self._first_other_line(lines)
            )

    def _first_other_line(self, lines: Sequence[str]) -> str:
        if not self._debug:
            return "\ndebug=True tells which lines saved them"
        first = [*self._lines, "nothing"]
        second = [*lines, "nothing"]
        for i, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                return f"\nThey differ from number {i} on: saved first by {one}, then by {other}"
        return "\nThe same lines saved them both times"


class _Kept:
    """One argument of a checkpointed call, kept for the second run.

    A tensor is packed by the hooks on saved tensors that are active around the checkpoint. So if
    this checkpoint is inside another one, the outer checkpoint recomputes the tensor.
    """

    def __init__(self, value: Any) -> None:
        self._levels: list[int] = []  # the vmap levels of a batch, the innermost first
        while isinstance(value, Batched):  # the graph belongs to the tensor inside the batch
            self._levels.append(value.level)
            value = value.value
        self._value = value
        self._requires_grad = isinstance(value, Tensor) and value.requires_grad
        if isinstance(value, Tensor):
            self._layout, self._version = value._layout, value._version
            self._value = pack_one(value)

    def again(self) -> Any:
        """Return the argument; a tensor is returned as a new leaf.

        Raises  RuntimeError if the tensor was changed in place since the first run
        """
        value = self._value
        if not hasattr(self, "_layout"):
            return value
        if not isinstance(value, Tensor):  # packed by other hooks, which do not check versions
            fresh = wrap(value._array, self._layout)
        else:
            if value._version != self._version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an argument of a checkpoint, of shape "
                    f"{tuple(value.shape)}, is at version {value._version}; expected version "
                    f"{self._version} instead. Give the checkpoint a clone()"
                )
            fresh = value.detach()
        if self._requires_grad:
            fresh.requires_grad_()
        for level in reversed(self._levels):
            fresh = batched(fresh, level)
        return fresh


def _facts(tensor: Tensor) -> str:
    layout = tensor._layout
    return f"shape {tuple(layout.shape)}, dtype {layout.dtype}, device {layout.device}"


def _line() -> str:
    """Return the innermost line of the stack that is outside of fastdist."""
    for frame, number in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not file.startswith(OUR_FILES):
            return f"{file}:{number} in {frame.f_code.co_name}"
    return "fastdist itself"


class Draws:
    """The positions of all random generators at the start of a call. `end` keeps only the
    generators that the call used.
    """

    def __init__(self) -> None:
        self._marks = {generator: generator.bookmark() for generator in default_generators()}

    def end(self) -> None:
        """Drop the generators whose positions have not changed."""
        for generator in default_generators():  # the first draw on a device creates a generator
            self._marks.setdefault(generator, Bookmark(generator.initial_seed(), 0))
        moved = [one for one, mark in self._marks.items() if one.bookmark() != mark]
        self._marks = {generator: self._marks[generator] for generator in moved}

    @contextmanager
    def again(self) -> Iterator[None]:
        """In the `with` block, draw the call's random numbers again; restore the generators
        afterwards.
        """
        before = {generator: generator.bookmark() for generator in self._marks}
        try:
            for generator, mark in self._marks.items():
                generator.go_to(mark)
            yield
        finally:
            for generator, mark in before.items():
                generator.go_to(mark)
