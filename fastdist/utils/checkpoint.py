"""Activation checkpointing: activations are recomputed in the backward pass instead of stored."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..autograd.differentiate import backward as run_backward
from ..autograd.function import Function
from ..core.device import Device
from ..core.folded_frames import folds
from ..core.missing import explain_missing
from ..core.short_repr import short_repr
from ..engine.engine import current_graph_task
from ..graph.modes import enable_grad, tls
from ..graph.saved_tensors import count_hooks, open_hooks, push_hooks
from ..interpreters.autocast import casting_as, casting_now
from ..random_numbers.generator import default_generator_of
from ..tensor.pytree import tree_iter
from ..tensor.tensor import Tensor
from .recomputation import CheckpointError, Draws, Frame
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
_DETERMINISM_CHECKS = ("default", "none")
_settings: dict[str, bool | None] = {"early_stop": None, "debug": None}


def noop_context_fn() -> _Contexts:
    """Return two contexts that do nothing, for the first run and the recomputation."""
    return nullcontext(), nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the index of each GPU that holds a tensor in `args` (also nested in containers), and
    the state of each GPU's random generator. The CPU is not included.
    """
    found = {leaf.device for leaf in tree_iter(args) if isinstance(leaf, Tensor)}
    devices = sorted((device for device in found if device.type != "cpu"), key=str)
    states = [default_generator_of(device).get_state() for device in devices]
    return [device.index or 0 for device in devices], states


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Set the states of random generators, as returned by get_device_states.

    `device_type` is "cuda" by default.

    Raises  ValueError if the numbers of devices and states differ
    """
    for index, state in zip(devices, states, strict=True):
        default_generator_of(Device(device_type or "cuda", index)).set_state(state)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In the `with` block, set for all checkpoints whether a recomputation stops once it has
    computed all values that the first run saved.
    """
    yield from _setting("early_stop", enable)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """In the `with` block, `enabled` replaces the `debug` argument of all checkpoints. If it is
    None, each call uses its own argument.
    """
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
    context_fn: Callable[[], _Contexts] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return function(*args, **kwargs); store its arguments instead of its intermediate values.

    The backward pass runs function again to recompute the intermediate values. The second run uses
    the same autocast state and, unless preserve_rng_state=False, draws the same random numbers on
    all devices.

    With use_reentrant=False, hooks save placeholders for the values, and all of autograd is
    supported. With use_reentrant=True, function runs without recording. The backward pass then runs
    it with recording, and runs a nested backward pass through this recording. This form does not
    support `autograd.grad`, `backward(inputs=...)` or keyword arguments.

    Raises  CheckpointError in the backward pass, if the second run saves different tensors
    Source  Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; PyTorch,
            torch/utils/checkpoint.py

    Args:
        function: Called now and again in the backward pass; it must return the same both times.
        *args: The arguments of function, which stay in memory until the backward pass.
        use_reentrant: See above; None means True, with a warning.
        context_fn: Returns two context managers, for the first and the second run; none if None.
        determinism_check: "default" compares shapes, dtypes and devices of both runs; "none"
            compares only the number of saved tensors.
        debug: Whether an error names the lines that saved different tensors.
        early_stop: Whether the second run stops once it has computed all values to recompute.
        **kwargs: Keyword arguments of the function, and `preserve_rng_state`.

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
        _require_plain(kwargs, context_fn, debug)
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {_DETERMINISM_CHECKS}, got "
            f"{short_repr(determinism_check)}"
        )
    debug, early_stop = _chosen("debug", debug), _chosen("early_stop", early_stop)
    first, second = (context_fn or noop_context_fn)()
    options = {"preserve": preserve, "compares": determinism_check == "default"}
    frame = Frame(function, (args, kwargs), second, debug=debug, early_stop=early_stop, **options)
    return _run_first(frame, first, function, args, kwargs)


def _chosen(name: str, given: bool) -> bool:
    """Return the setting of an enclosing `with` block, or `given` if no block sets it."""
    setting = _settings[name]
    return given if setting is None else bool(setting)


def _require_plain(
    kwargs: dict[str, Any], context_fn: Callable[[], _Contexts] | None, debug: bool
) -> None:
    """Raise ValueError for arguments that use_reentrant=True does not support."""
    if kwargs:
        raise ValueError(
            f"Unexpected keyword arguments: {','.join(kwargs)}; with use_reentrant=True pass "
            "the function's arguments by position, or pass use_reentrant=False"
        )
    if context_fn not in (None, noop_context_fn) or debug:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )


def _run_first(
    frame: Frame,
    context: AbstractContextManager[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run the function with hooks by which `frame` packs the saved values."""
    before = open_hooks.stack
    try:
        push_hooks(frame.pack, frame.unpack)
        with context:
            result = function(*args, **kwargs)
    finally:
        # If Ctrl-C left these hooks in place, they would pack the values of other code.
        open_hooks.stack = before
        count_hooks(len(before))
    if frame.draws is not None:
        frame.draws.end()
    return result


def _is_reentrant(given: bool | None, name: str) -> bool:
    if given is None:
        warnings.warn(
            f"torch.utils.checkpoint: the use_reentrant parameter of {name}() should be passed "
            "explicitly; use_reentrant=False is recommended. True is used, as in PyTorch",
            stacklevel=3,
        )
    return given is not False


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs with each tensor detached, as a new leaf with the same requires_grad."""
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
    """The reentrant checkpoint: its backward runs a nested backward pass."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Run function without recording, and save args."""
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None",
                stacklevel=3,
            )
        ctx.run_function = function
        ctx.draws = draws = Draws() if preserve else None
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
        """Run function again with recording, and pass the gradients back through it."""
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
    """Call functions (a Sequential or a list) one after another on input, and return the result.
    The functions are split into `segments` parts, and all parts but the last are checkpointed.
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
