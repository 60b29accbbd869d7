"""Activations that are computed again in the backward pass instead of being kept."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from ..autograd.differentiate import backward as run_backward
from ..autograd.function import Function
from ..core.device import Device
from ..core.folded_frames import folds
from ..core.missing import explain_missing
from ..core.short_repr import short_repr
from ..engine.engine import current_graph_task, queue_callback
from ..graph.modes import enable_grad, tls
from ..graph.saved_tensors import count_hooks, open_hooks, pack_one, push_hooks
from ..interpreters.autocast import casting_as, casting_now
from ..interpreters.batched_tensor import Batched, batched
from ..interpreters.batching import levels_now, using_levels
from ..random_numbers.generator import Bookmark, default_generator_of, default_generators
from ..tensor.pytree import tree_iter
from ..tensor.tensor import Tensor, wrap
from .selective_checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
# Where fastdist's own files lie; those that it generates are called <fastdist ...>.
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DETERMINISM_CHECKS = ("default", "none")
_settings: dict[str, bool | None] = {"early_stop": None, "debug": None}


class CheckpointError(RuntimeError):
    """The second run of a function differs from its first one."""


class _EnoughComputed(BaseException):
    """Ends a second computation: all that was saved in the first one is there."""


def noop_context_fn() -> _Contexts:
    """Return contexts for both computations that do nothing."""
    return nullcontext(), nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the indices of the GPUs that tensors in args, or in containers there, lie on, and
    where the streams of random numbers of these stand; the CPU's stream is not among them.
    """
    found = {leaf.device for leaf in tree_iter(args) if isinstance(leaf, Tensor)}
    devices = sorted((device for device in found if device.type != "cpu"), key=str)
    states = [default_generator_of(device).get_state() for device in devices]
    return [device.index or 0 for device in devices], states


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Let the streams of devices (GPUs unless device_type says others) go on from where they stood
    at get_device_states.

    Raises  ValueError for other numbers of devices and states
    """
    for index, state in zip(devices, states, strict=True):
        default_generator_of(Device(device_type or "cuda", index)).set_state(state)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside this block, say for all checkpoints whether a second computation ends as soon as all
    that is needed is there.
    """
    yield from _setting("early_stop", enable)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside this block, go before the `debug` of all checkpoints; None leaves it to them."""
    yield from _setting("debug", enabled)


def _setting(name: str, value: bool | None) -> Iterator[None]:
    before = _settings[name]
    _settings[name] = value
    try:
        yield
    finally:
        _settings[name] = before


@folds
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], _Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return function(*args, **kwargs), keeping its arguments instead of what its ops save; the
    backward pass calls function again when it needs that.

    Random numbers of all devices are the same both times, unless preserve_rng_state=False is given,
    and autocast casts as in the first run. With use_reentrant=False hooks catch the saved values of
    function: all of autograd works. With True function runs without recording, and again, with
    another backward pass, inside the backward pass: `autograd.grad` and `backward(inputs=...)` are
    refused, and so are keyword arguments. `context_fn` returns the contexts for the first and the
    second call.

    Raises  CheckpointError, in the backward pass, if the second call saves other tensors than the
            first, in number or, without determinism_check="none", in shape, dtype or device;
            debug=True lets it say which line of which file saved them
    Source  Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; PyTorch,
            torch/utils/checkpoint.py

    Args:
        function: The function.
        *args: Its arguments.
        use_reentrant: False for a graph that is cut nowhere, True for PyTorch's older way; False
            with a warning if None.
        context_fn: A function that returns two context managers, for the first run and the second.
        determinism_check: "default" compares shapes, dtypes and devices of both runs, "none" does
            not.
        debug: Whether an error lists the ops of both runs.
        early_stop: Whether the second run ends once it has all that is needed.
        **kwargs: Its keyword arguments.

    Returns:
        The result of function.

    Example:
        >>> from fastdist.utils.checkpoint import checkpoint
        >>> x = torch.ones(2, requires_grad=True)
        >>> checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([2.7183, 2.7183])
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if _is_reentrant(use_reentrant, "checkpoint"):
        if kwargs:
            raise ValueError(
                f"Unexpected keyword arguments: {','.join(kwargs)}; with use_reentrant=True pass "
                "the function's arguments by position, or pass use_reentrant=False"
            )
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {_DETERMINISM_CHECKS}, got "
            f"{short_repr(determinism_check)}"
        )
    asked = _settings["debug"]
    first, second = context_fn()
    frame = _Frame(
        function,
        (args, kwargs),
        second,
        preserve=preserve,
        compares=determinism_check == "default",
        debug=debug if asked is None else asked,
        early_stop=early_stop if _settings["early_stop"] is None else bool(_settings["early_stop"]),
    )
    result = _run_first(frame, first, function, args, kwargs)
    if frame.draws is not None:
        frame.draws.end()
    return result


def _run_first(
    frame: _Frame,
    context: AbstractContextManager[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run the function and let its frame pack what is saved."""
    before = open_hooks.stack
    try:
        push_hooks(frame.pack, frame.unpack)
        with context:
            return function(*args, **kwargs)
    finally:
        # Left open by a Ctrl-C, they would pack what others save.
        open_hooks.stack = before
        count_hooks(len(before))


def _is_reentrant(given: bool | None, name: str) -> bool:
    if given is None:
        warnings.warn(
            f"torch.utils.checkpoint: the use_reentrant parameter of {name}() should be passed "
            "explicitly; use_reentrant=False is recommended. True is used, as in PyTorch",
            stacklevel=3,
        )
    return given is not False


class _Holder:
    """A Node's replacement for a saved tensor."""

    __slots__ = ("__weakref__", "index", "tensor")

    def __init__(self, index: int) -> None:
        self.index = index
        self.tensor: Tensor | None = None


class _Frame:
    """One checkpointed call: how to make it again, and what waits for that.

    Thread  several threads of one backward pass may unpack; `_lock` lets one compute
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
        self.draws = _Draws() if preserve else None
        self._casting, self._levels = casting_now(), levels_now()
        self._compares, self._debug, self._early_stop = compares, debug, early_stop
        self._holders: list[weakref.ref[_Holder]] = []
        self._facts: list[str] = []
        self._lines: list[str] = []
        self._lock = threading.RLock()

    def pack(self, tensor: Tensor) -> _Holder:
        """Keep a holder only."""
        holder = _Holder(len(self._holders))
        self._holders.append(weakref.ref(holder))
        self._facts.append(_facts(tensor))
        if self._debug:
            self._lines.append(_line())
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """Return the saved value, computed again if this pass has not done so yet.

        Raises  CheckpointError
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
        """Release the values of the pass that ends: a retained graph computes them again."""
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
                # `keep`, left open by a Ctrl-C, would end what others compute.
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
    """One argument, until it is needed again.

    A tensor lies as those hooks want it that are open around the checkpoint: inside another one it
    is computed again itself.
    """

    def __init__(self, value: Any) -> None:
        self._levels: list[int] = []  # of a batch of vmap, the innermost first
        while isinstance(value, Batched):  # whose graph is its value's
            self._levels.append(value.level)
            value = value.value
        self._value = value
        self._requires_grad = isinstance(value, Tensor) and value.requires_grad
        if isinstance(value, Tensor):
            self._layout, self._version = value._layout, value._version
            self._value = pack_one(value)

    def again(self) -> Any:
        """Return the argument; a tensor as a new leaf.

        Raises  RuntimeError if the tensor was changed in place meanwhile
        """
        value = self._value
        if not hasattr(self, "_layout"):
            return value
        if not isinstance(value, Tensor):  # packed by other hooks, which look at no versions
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
    """Return the innermost line of the program that is not fastdist's own."""
    for frame, number in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_FOLDER, "<fastdist")):
            return f"{file}:{number} in {frame.f_code.co_name}"
    return "fastdist itself"


class _Draws:
    """Where the streams of random numbers of all devices stood when a call began; once it has
    ended, of those alone that it drew from.
    """

    def __init__(self) -> None:
        self._marks = {generator: generator.bookmark() for generator in default_generators()}

    def end(self) -> None:
        """Forget the streams that are where they were."""
        for generator in default_generators():  # a device's is made at its first draw
            self._marks.setdefault(generator, Bookmark(generator.initial_seed(), 0))
        moved = [one for one, mark in self._marks.items() if one.bookmark() != mark]
        self._marks = {generator: self._marks[generator] for generator in moved}

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside this block, draw what the call drew; go on behind it as if nothing was."""
        before = {generator: generator.bookmark() for generator in self._marks}
        try:
            for generator, mark in self._marks.items():
                generator.go_to(mark)
            yield
        finally:
            for generator, mark in before.items():
                generator.go_to(mark)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs with each tensor as a new leaf that requires grad where it did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        [
            one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one
            for one in inputs
        ]
    )


class CheckpointFunction(Function):
    """The checkpoint that runs a backward pass inside the backward pass."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Run function without recording; keep args."""
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None",
                stacklevel=3,
            )
        ctx.run_function = function
        ctx.draws = draws = _Draws() if preserve else None
        ctx.casting = casting_now()
        ctx.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        result = function(*args)
        if draws is not None:
            draws.end()
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Run function again, recording, and send the gradients through it."""
        task, inline = current_graph_task(), tls.inline_pass
        if (task is not None and task.exec_info) or (inline and inline[2] is not None):
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor
        fresh = detach_variable(tuple(args))
        drawn = nullcontext() if ctx.draws is None else ctx.draws.again()
        with drawn, casting_as(ctx.casting), enable_grad():
            outputs = ctx.run_function(*fresh)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (out, g)
            for out, g in zip(outputs, grad_outputs, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        run_backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *[one.grad if isinstance(one, Tensor) else None for one in fresh]


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Return the result of functions (a Sequential or a list), called one after the other on input,
    with all but the last of `segments` parts checkpointed.
    """
    use_reentrant = _is_reentrant(use_reentrant, "checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    if size == 0:
        raise ValueError(
            f"checkpoint_sequential: {segments} segments of {len(steps)} functions, expected no "
            "more segments than functions"
        )

    def run(part: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
        def in_turn(x: Any) -> Any:
            for step in part:
                x = step(x)
            return x

        return in_turn

    for start in range(0, size * (segments - 1), size):
        part = run(steps[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(steps[size * (segments - 1) :])(input)


explain_missing(__name__)
