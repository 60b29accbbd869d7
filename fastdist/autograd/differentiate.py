"""`backward` and `grad`, in PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import GraphError
from ..engine import backward as engine
from ..ops.creation import zeros_like
from ..tensor.tensor import Tensor

Tensors = Tensor | Sequence[Tensor]
Gradients = Tensor | Sequence[Tensor | None] | None


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
        if not inputs:
            raise GraphError("`inputs` argument to `backward()` cannot be empty.")
    roots = _many(tensors)
    engine.backward(roots, _gradients(grad_tensors, len(roots)), retain_graph, create_graph, inputs)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of outputs with respect to inputs, leaving every `.grad` alone.

    Note    an unused input gives None with allow_unused, zeros with materialize_grads
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
    found = engine.grad(
        roots,
        wanted,
        _gradients(grad_outputs, len(roots)),
        retain_graph,
        create_graph,
        bool(allow_unused) or materialize_grads,
    )
    if materialize_grads:
        found = tuple([zeros_like(x) if g is None else g for g, x in zip(found, wanted)])
    # With allow_unused some may be None; PyTorch types them as Tensors all the same.
    return found  # type: ignore[return-value]


def _many(tensors: Tensors) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _gradients(given: Gradients, count: int) -> tuple[Tensor | None, ...]:
    if given is None:
        return (None,) * count
    return (given,) if isinstance(given, Tensor) else tuple(given)
