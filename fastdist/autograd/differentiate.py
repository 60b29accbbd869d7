"""`backward` and `grad`, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.errors import GraphError
from ..core.short_repr import short_repr
from ..core.torch_function import NOT_TAKEN, offer
from ..dispatch.op import PLAIN
from ..engine import backward as engine
from ..graph.gradient_edge import GradientEdge, Inputs, given_inputs, tensor_at
from ..interpreters.torch_function import overridable_by_modes
from ..ops.create.creation import zeros_like
from ..ops.shape.joining import stack
from ..tensor.tensor import Tensor
from .batches_back import backward_batched, release

# An edge is enough to capture a gradient: the tensor that has the edge is not needed.
Tensors = Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]
Gradients = Tensor | Sequence[Tensor | None] | None
# The options of `grad`, in the order of its parameters.
_OPTIONS = (
    *("grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused"),
    *("is_grads_batched", "materialize_grads"),
)


@overridable_by_modes
def backward(
    tensors: Tensors,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Inputs | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of their leaves, or only to that of `inputs`.

    `inputs` may be a dict of tensors. It may also contain the edge of a leaf, or of a tensor that
    retains its gradient.

    Note    `__torch_function__` is called for tensors and inputs, but not for grad_tensors; the
            same holds for `grad`
    Thread  runs in the calling thread; passes of other threads through the same leaves may overlap
    Raises  RuntimeError for a tensor without a graph, or for one with several elements and no given
            gradient
    """
    wanted = None if inputs is None else given_inputs(inputs, "backward")
    roots = _many(tensors, "backward", "tensors")
    if not PLAIN.issuperset(map(type, (*roots, *(wanted or ())))):
        options = {
            "grad_tensors": grad_tensors,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": wanted,
        }
        if offer(backward, (roots,), options) is not NOT_TAKEN:
            return
        roots = _tensors(roots)
    engine.backward(roots, _gradients(grad_tensors, len(roots)), retain_graph, create_graph, wanted)


@overridable_by_modes
def grad(
    outputs: Tensors,
    inputs: Inputs,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of outputs with respect to inputs, leaving every `.grad` unchanged.

    Raises  RuntimeError for an input that does not require grad; without allow_unused, also for an
            input on which no output depends

    Args:
        outputs: A tensor, or several.
        inputs: One tensor, several, or a dict of tensors. For a dict, the result is a dict.
        grad_outputs: The gradient of each output; 1 if None, for outputs with one element.
        retain_graph: Whether to keep the graph for a second pass; None means create_graph's value.
        create_graph: Whether to record the pass, for second derivatives.
        only_inputs: Ignored; accepted for old programs. No `.grad` is ever changed.
        allow_unused: Whether to return None for an input on which no output depends.
        is_grads_batched: Whether each tensor in grad_outputs is a batch along its first axis. The
            results get the same axis. One pass computes all, if all Nodes accept batches.
        materialize_grads: Whether to return zeros for an input on which no output depends.

    Example:
        >>> x = torch.tensor([2.0], requires_grad=True)
        >>> torch.autograd.grad(x**3, x)
        (tensor([12.]),)
    """
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if inputs.__class__ is dict:
        given = (outputs, given_inputs(inputs, "grad"), grad_outputs, retain_graph, create_graph)
        rest = (only_inputs, allow_unused, is_grads_batched, materialize_grads)
        return dict(zip(inputs, grad(*given, *rest), strict=True))  # type: ignore[return-value]
    roots, wanted = _many(outputs, "grad", "outputs"), given_inputs(inputs, "grad")
    asked = wanted
    if not PLAIN.issuperset(map(type, (*roots, *wanted))):
        rest = (only_inputs, allow_unused, is_grads_batched, materialize_grads)
        values = (grad_outputs, retain_graph, create_graph, *rest)
        taken = offer(grad, (roots, wanted), dict(zip(_OPTIONS, values, strict=True)))
        if taken is not NOT_TAKEN:
            return taken  # type: ignore[no-any-return]
        roots, wanted = _tensors(roots), _tensors(wanted)
    gradients = _gradients(grad_outputs, len(roots))
    allow = bool(allow_unused) or materialize_grads
    run = _batched if is_grads_batched else engine.grad
    found = run(roots, wanted, gradients, retain_graph, create_graph, allow)
    if materialize_grads:
        found = tuple(
            [_zeros_for(x, create_graph) if g is None else g for g, x in zip(found, asked)]
        )
    return found  # type: ignore[return-value]  # some may be None; PyTorch's type is kept


def _batched(
    roots: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...],
    gradients: tuple[Tensor | None, ...],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """Return, for each input, one gradient per entry of the first axis of `gradients`. An input's
    gradients are stacked along a new first axis.
    """
    given = [g for g in gradients if g is not None]
    if len(given) < len(gradients) or len({len(g) for g in given}) != 1:
        raise GraphError(
            "is_grads_batched=True needs a gradient for every output, all with a first axis of "
            f"one length; got {[None if g is None else tuple(g.shape) for g in gradients]}"
        )
    count = len(given[0])
    keep = create_graph if retain_graph is None else retain_graph
    at_once = backward_batched(roots, wanted, given, create_graph=create_graph, allow=allow_unused)
    if at_once is not None:
        if not keep:
            release(roots)
        return at_once
    passes = []
    for i in range(count):
        retained = keep or i < count - 1
        at = tuple([g[i] for g in given])
        passes.append(engine.grad(roots, wanted, at, retained, create_graph, allow_unused))
    columns = zip(*passes, strict=True)
    return tuple([None if any(g is None for g in column) else stack(column) for column in columns])


def _zeros_for(input: Any, create_graph: bool) -> Tensor:
    """Return a zero gradient for an input on which no output depends."""
    if isinstance(input, GradientEdge):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge: give the "
            "tensor"
        )
    made: Tensor = zeros_like(input, requires_grad=create_graph)
    return made


def _many(tensors: Any, function: str, name: str) -> tuple[Any, ...]:
    if isinstance(tensors, Tensor) or tensors.__class__ is GradientEdge:
        return (tensors,)
    if not isinstance(tensors, Iterable):
        raise TypeError(
            f"{function}(): argument {name!r} must be a Tensor or a sequence of Tensors, not "
            f"{short_repr(tensors)}"
        )
    return tuple(tensors)


def _tensors(many: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return `many` as tensors: an edge is replaced by a tensor with that edge."""
    return tuple([tensor_at(one) if isinstance(one, GradientEdge) else one for one in many])


def _gradients(given: Gradients, count: int) -> tuple[Tensor | None, ...]:
    if given is None:
        return (None,) * count
    return (given,) if isinstance(given, Tensor) else tuple(given)
