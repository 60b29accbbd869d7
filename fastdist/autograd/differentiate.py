"""`backward` and `grad`, in PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import GraphError
from ..engine import backward as engine
from ..listeners.offering import offering_to_modes
from ..ops.creation import zeros_like
from ..ops.joining import stack
from ..tensor.tensor import Tensor
from .batches_back import passed_at_once, release

Tensors = Tensor | Sequence[Tensor]
Gradients = Tensor | Sequence[Tensor | None] | None


@offering_to_modes
def backward(
    tensors: Tensors,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of tensors into the `.grad` of their leaves, or of inputs alone.

    Thread  runs here; other threads' passes through the same leaves may overlap
    Raises  RuntimeError for a tensor without a graph, or with several elements and no gradient
    """
    if inputs is not None:
        inputs = _many(inputs)
    roots = _many(tensors)
    engine.backward(roots, _gradients(grad_tensors, len(roots)), retain_graph, create_graph, inputs)


@offering_to_modes
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of outputs with respect to inputs, leaving every `.grad` alone.

    Note    an unused input gives None with allow_unused, zeros with materialize_grads;
            is_grads_batched takes grad_outputs with a first axis more, and gives gradients with
            one, made by one pass where all on the way takes batches; only_inputs is there for old
            programs and means nothing: no `.grad` is ever touched
    Raises  RuntimeError for an input that does not require grad, or that (unless allowed) nothing
            depends on
    """
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    roots, wanted = _many(outputs), _many(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    gradients = _gradients(grad_outputs, len(roots))
    allow = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        found = _batched(roots, wanted, gradients, retain_graph, create_graph, allow)
    else:
        found = engine.grad(roots, wanted, gradients, retain_graph, create_graph, allow)
    if materialize_grads:
        found = tuple([zeros_like(x) if g is None else g for g, x in zip(found, wanted)])
    # With allow_unused some may be None; PyTorch types them as Tensors all the same.
    return found  # type: ignore[return-value]


def _batched(
    roots: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...],
    gradients: tuple[Tensor | None, ...],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """Return gradients for each entry of the gradients' first axis, along a first axis."""
    given = [g for g in gradients if g is not None]
    if len(given) < len(gradients) or len({len(g) for g in given}) != 1:
        raise GraphError(
            "is_grads_batched=True needs a gradient for every output, all with a first axis of "
            f"one length; got {[None if g is None else tuple(g.shape) for g in gradients]}"
        )
    count = len(given[0])
    keep = create_graph if retain_graph is None else retain_graph
    at_once = passed_at_once(roots, wanted, given, create_graph=create_graph, allow=allow_unused)
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


def _many(tensors: Tensors) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _gradients(given: Gradients, count: int) -> tuple[Tensor | None, ...]:
    if given is None:
        return (None,) * count
    return (given,) if isinstance(given, Tensor) else tuple(given)
