"""Starts a pass: checks the roots, makes their gradients, and chooses the loop or the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.errors import GraphError, ShapeError, raise_out_of_memory
from ..core.short_repr import short_repr
from ..graph.add_gradients import first_gradient
from ..graph.gradient_edge import GradientEdge
from ..graph.modes import InlinePass, modes, set_grad_mode, tls
from ..graph.node import Node, node_of, output_number
from ..tensor.tensor import Tensor, wrap
from . import inline
from .inline_grad import GradPass

T = TypeVar("T")


def backward(
    tensors: Sequence[Tensor],
    grad_tensors: Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor | GradientEdge] | None = None,
) -> None:
    """Compute the gradients of `tensors` by the leaves, and add them to `.grad` of the leaves.

    Thread  runs in the calling thread; Nodes of a device run on that device's thread, and the
            caller waits for them
    Raises  RuntimeError for a root without a graph, or for a root with several elements but without
            a given gradient
    """
    roots = _roots(tensors, grad_tensors, create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None and not create_graph and not modes.special and not modes_engine.always:
        edges = [edge for edge, _ in roots]
        shared, on_cpu = inline.plan(edges)
        if on_cpu:
            first = [(edge, g._array) for edge, g in roots]
            _run_inline((roots, [], None), False, inline.run, first, shared, keep)
            return
    from .engine import engine

    captures = None if inputs is None else _capture_edges(inputs)
    for input in inputs or ():
        if isinstance(
            input, Tensor
        ):  # a GradientEdge does not reference the tensor whose `.grad` would be set
            input.retain_grad()  # does nothing for leaves
    engine().execute(roots, keep=keep, create_graph=create_graph, inputs=captures, accumulate=True)


def grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of outputs with respect to inputs, and change no `.grad`.

    Raises  RuntimeError for an input that does not require grad, or (without allow_unused) on
            which no output depends
    """
    roots = _roots(outputs, grad_outputs, create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    found = _captured(roots, _capture_edges(inputs), keep, create_graph)
    result: list[Tensor | None] = []
    for i, g in enumerate(found):
        if g is None and not allow_unused:
            raise GraphError(
                f"The differentiated Tensor at index {i} appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
        result.append(g)
    return tuple(result)


def _captured(
    roots: list[tuple[Any, Tensor]], inputs: list[tuple[Node, int]], keep: bool, create_graph: bool
) -> list[Tensor | None]:
    # Check the inputs first: if an input is on a GPU, the engine must run the pass, and the search
    # for paths by GradPass would be wasted.
    if not (modes.special or modes_engine.always) and _are_on_cpu(inputs):
        chosen = GradPass([edge for edge, _ in roots], inputs)
        if chosen.is_on_cpu:
            around: InlinePass = (roots, [], chosen.users)
            return _run_inline(around, create_graph, chosen.run, roots, keep, create_graph)
    from .engine import engine

    return engine().execute(
        roots, keep=keep, create_graph=create_graph, inputs=inputs, accumulate=False
    )


def _are_on_cpu(inputs: list[tuple[Node, int]]) -> bool:
    for node, _ in inputs:
        if inline.is_cpu(node):
            continue
        return False  # this is a loop, as all() would take twice the time
    return True


class _EngineChoice:
    """A switch for tests: run every pass in the engine, to compare it with the inline loop."""

    __slots__ = ("always",)

    def __init__(self) -> None:
        self.always = False


modes_engine = _EngineChoice()


def _run_inline(inline_pass: InlinePass, recorded: bool, work: Callable[..., T], *args: Any) -> T:
    before, outer = tls.grad, tls.inline_pass
    tls.inline_pass = inline_pass
    try:
        set_grad_mode(recorded)
        found = work(*args)
        # A callback may queue another callback.
        for callback in inline_pass[1]:
            callback()
        return found
    except MemoryError as error:
        raise_out_of_memory(error)
    finally:
        # See Note [Ctrl-C and grad mode]
        tls.inline_pass = outer
        if before:
            tls.grad = True
        set_grad_mode(before)


def _roots(
    tensors: Sequence[Tensor], grad_tensors: Sequence[Tensor | None] | None, create_graph: bool
) -> list[tuple[Any, Tensor]]:
    if grad_tensors is None:
        grad_tensors = (None,) * len(tensors)
    if len(grad_tensors) != len(tensors):
        raise GraphError(f"got {len(tensors)} tensors and {len(grad_tensors)} gradients")
    roots = []
    for i, (tensor, g) in enumerate(zip(tensors, grad_tensors, strict=True)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"element {i} of tensors is {type(tensor).__name__}; expected a Tensor")
        if tensor._edge is None:
            raise GraphError(
                f"element {i} of tensors does not require grad and does not have a grad_fn: it was "
                "made under no_grad(), of detached values, or of tensors without requires_grad=True"
            )
        roots.append((tensor._edge, _root_gradient(tensor, g, create_graph)))
    return roots


def _root_gradient(tensor: Tensor, g: Tensor | None, create_graph: bool) -> Tensor:
    layout = tensor._layout
    if g is None:
        if layout.numel != 1:
            raise GraphError(
                "grad can be implicitly created only for scalar outputs: "
                f"this one has shape {layout.shape}; give backward a gradient of that shape"
            )
        if layout.dtype.is_complex:
            raise GraphError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{short_repr(layout.dtype)}: give backward a gradient, or take the real part"
            )
        return first_gradient(tensor)
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._layout.shape != layout.shape:
        raise ShapeError(
            f"Mismatch in shape: grad_output has a shape of {g._layout.shape} and output has a "
            f"shape of {layout.shape}."
        )
    if g._layout.device is not layout.device:
        raise GraphError(f"grad_output is on {g._layout.device}; the output is on {layout.device}")
    if g._layout.dtype is not layout.dtype:
        g = g.to(layout.dtype)
    return g if create_graph else wrap(g._array, g._layout)


def _capture_edges(inputs: Sequence[Tensor | GradientEdge]) -> list[tuple[Any, int]]:
    captures = []
    for i, input in enumerate(inputs):
        if isinstance(input, GradientEdge):
            captures.append((input.node, input.output_nr))
            continue
        if not isinstance(input, Tensor):
            raise GraphError(
                "all inputs have to be Tensors or GradientEdges, but got "
                f"{type(input).__name__}: inputs[{i}]"
            )
        if input._edge is None:
            raise GraphError("One of the differentiated Tensors does not require grad")
        captures.append((node_of(input._edge), output_number(input._edge)))
    return captures
