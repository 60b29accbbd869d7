"""Products with Jacobians and Hessians of functions that call other workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.forward_ad import dual_level, make_dual, unpack_dual
from ...core.errors import GraphError
from ...core.folded_frames import fold_public
from ...graph.modes import enable_grad, no_grad
from ...ops.create.creation import ones_like, zeros_like
from ...tensor.tensor import Tensor
from ..rpc.api import remote, rpc_sync
from ..rpc.references.rref import RRef
from .container import INVALID_CONTEXT_ID, context, get_instance
from .engine import dist_engine
from .message_autograd import context_guard

# Note [Inputs that live elsewhere]
# An input may be an RRef to a Tensor of any worker, such as a parameter that stays on its worker.
# The function then gets another RRef, created on the owner, to a new leaf or to a dual tensor.
# Calls on that RRef carry history and tangents. The product for such an input is returned as an
# RRef to a Tensor on the same worker. A direction for such an input may be a Tensor or an RRef.

# Note [Two passes for a Hessian]
# A Hessian-vector product is computed by a second pass over a recorded first pass; the second
# starts from the product of the gradients with the direction. A single pass with tangents gives the
# same result, because gradients carry their tangents. But in a single pass the tangents of the
# forward half have an unneeded history, which is sent as well. Measured over three workers
# (bench/distributed/distributed_hvp.py, two busy cores of an AMD EPYC): two passes take 0.99 of the
# single pass's time for 8x8 matrices, and 0.74 for 512x512.

Input = Tensor | RRef[Tensor]
Inputs = Input | tuple[Input, ...]


def jvp(
    func: Callable[..., Any], inputs: Inputs, v: Inputs | None = None, *, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(*inputs) and the product of its Jacobian with v, in forward mode over all workers
    that func calls.

    The arguments are those of `autograd.functional.jvp`, but an input, and its entry in v, may be
    an RRef to a Tensor of another worker. No graph is recorded, even in an open context. To
    differentiate the product, call func on dual tensors inside a context.

    Thread  runs in the calling thread
    Raises  TypeError if an input or a result is not a Tensor; RuntimeError if v does not fit the
            inputs, or is missing for an input of several elements; with strict, RuntimeError if a
            result does not depend on the inputs

    Args:
        func: A function from the inputs to tensors; it may call other workers.
        inputs: A tensor, an RRef to a tensor, or a tuple of tensors and RRefs.
        v: The direction, like inputs; 1 if None, for one input of one element.
        strict: Whether a result that does not depend on the inputs is an error.

    Returns:
        The results, and the products in the same structure.

    Example:
        >>> def double(x):
        ...     return rpc.rpc_sync("worker0", torch.mul, args=(x, 2))
        >>> dist_autograd.jvp(double, torch.ones(2), torch.tensor([1.0, 0.0]))
        (tensor([2., 2.]), tensor([2., 0.]))
    """
    given, _ = _many(inputs, "inputs")
    directions = _directions(v, given)
    with context_guard(INVALID_CONTEXT_ID), no_grad(), dual_level():
        leaves = [_leaf(x, requires_grad=False) for x in given]
        duals = [_dual(x, t, i) for i, (x, t) in enumerate(zip(leaves, directions, strict=True))]
        results = func(*duals)
        found, is_single = _tensors(results)
        pairs = [unpack_dual(one) for one in found]
    if strict and any(tangent is None for _, tangent in pairs):
        raise GraphError("The output of the user-provided function is independent of the input.")
    values = tuple([primal.detach() for primal, _ in pairs])
    products = tuple([zeros_like(y) if t is None else t.detach() for y, t in pairs])
    return (values[0], products[0]) if is_single else (values, products)


def hvp(
    func: Callable[..., Any], inputs: Inputs, v: Inputs | None = None, *, strict: bool = False
) -> tuple[Tensor, Any]:
    """Return func(*inputs), which must be a single number, and the product of its Hessian with v,
    over all workers that func calls.

    The arguments are those of `autograd.functional.hvp`, but an input, and its entry in v, may be
    an RRef to a Tensor of another worker; the product is then an RRef to a Tensor of that worker.
    The passes use a private context, and leave open contexts and `.grad` unchanged.

    Thread  runs in the calling thread
    Raises  TypeError if an input is not a Tensor; RuntimeError if v does not fit the inputs, or is
            missing for an input of several elements; if the result of func is not a single number;
            with strict, if the result does not depend on an input; errors of a pass
    Note    see Note [Two passes for a Hessian]; to differentiate the product, compute it with
            `backward(..., create_graph=True)`

    Args:
        func: A function from the inputs to a tensor of one element; it may call other workers.
        inputs: A tensor, an RRef to a tensor, or a tuple of tensors and RRefs.
        v: The direction, like inputs; 1 if None, for one input of one element.
        strict: Whether an input on which the result does not depend is an error.

    Returns:
        The result, and the products in the structure of inputs.

    Example:
        >>> def energy(x):
        ...     return rpc.rpc_sync("worker0", torch.pow, args=(x, 3)).sum()
        >>> x = torch.tensor([1.0, 2.0])
        >>> dist_autograd.hvp(energy, x, torch.tensor([1.0, 0.0]))
        (tensor(9.), tensor([6., 0.]))
    """
    given, is_single = _many(inputs, "inputs")
    directions = _directions(v, given)
    with _in_new_context() as context_id, enable_grad():
        leaves = [_leaf(x, requires_grad=True) for x in given]
        pairs = [
            # The owner of an RRef checks the direction.
            (x, t if isinstance(x, RRef) else _fitting(x, t, i))
            for i, (x, t) in enumerate(zip(leaves, directions, strict=True))
        ]
        value = func(*leaves)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise GraphError(
                "The Tensor returned by the given function should contain a single element: hvp "
                f"got {_shape_of(value)}"
            )
        if value._edge is not None:
            dist_engine().execute(context_id, [value], False, is_auto=True, create_graph=True)
        parts = [_dot(x, t, i, context_id, strict) for i, (x, t) in enumerate(pairs)]
        roots = [part for part in parts if part is not None and part._edge is not None]
        if roots:
            dist_engine().execute(context_id, roots, False, is_auto=True)
        products = tuple([_product(x, context_id) for x in leaves])
    return value.detach(), products[0] if is_single else products


@contextmanager
def _in_new_context() -> Iterator[int]:
    with context_guard(INVALID_CONTEXT_ID), context() as context_id:
        yield context_id


def _many(given: Any, what: str) -> tuple[tuple[Input, ...], bool]:
    if isinstance(given, Tensor | RRef):
        return (given,), True
    if not isinstance(given, tuple) or not all(isinstance(one, Tensor | RRef) for one in given):
        raise TypeError(
            f"the {what} must be a Tensor, an RRef to one, or a tuple of these, got "
            f"{_types_of(given)}"
        )
    return given, False


def _tensors(results: Any) -> tuple[Sequence[Tensor], bool]:
    if isinstance(results, Tensor):
        return (results,), True
    if not isinstance(results, tuple) or not all(isinstance(one, Tensor) for one in results):
        raise TypeError(
            "the function must return a Tensor or a tuple of Tensors, got "
            f"{_types_of(results)}; fetch an RRef with to_here() inside of it"
        )
    return results, False


def _types_of(given: Any) -> str:
    if not isinstance(given, tuple):
        return type(given).__name__
    return f"({', '.join(type(one).__name__ for one in given)})"


def _shape_of(value: Any) -> str:
    return f"shape {value._layout.shape}" if isinstance(value, Tensor) else type(value).__name__


def _directions(v: Any, given: Sequence[Input]) -> Sequence[Input | None]:
    """Return one direction for each input; if v is None, return None for the only input."""
    if v is None:
        if len(given) != 1:
            raise GraphError(
                "The vector v can only be None if the user-provided function has a single element "
                f"among its inputs: it has {len(given)} inputs"
            )
        return (None,)
    directions, _ = _many(v, "directions v")
    if len(directions) != len(given):
        raise GraphError(
            f"v has {len(directions)} tensors, expected {len(given)}, one for each of the inputs"
        )
    return directions


def _leaf(given: Input, *, requires_grad: bool) -> Input:
    if isinstance(given, Tensor):
        return _leaf_here(given, requires_grad)
    return remote(given.owner(), _leaf_there, (given, requires_grad))


def _leaf_here(value: Any, requires_grad: bool) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"an input is an RRef to {type(value).__name__}, expected one to a Tensor")
    return value.detach().requires_grad_(requires_grad)


def _leaf_there(given: RRef[Tensor], requires_grad: bool) -> Tensor:
    """Return, on the owner of the input, the leaf whose gradient a pass computes."""
    return _leaf_here(given.local_value(), requires_grad)


def _fitting(leaf: Tensor, direction: Input | None, number: int) -> Tensor:
    """Return the direction of an input, as a tensor on the input's worker.

    Raises  GraphError if its shape does not fit
    """
    if direction is None:
        if leaf.numel() != 1:
            raise GraphError(
                "The vector v can only be None if the user-provided function has a single element "
                f"among its inputs: it has shape {leaf._layout.shape}"
            )
        return ones_like(leaf).detach()
    if isinstance(direction, RRef):
        direction = direction.to_here()
    if not isinstance(direction, Tensor) or direction._layout.shape != leaf._layout.shape:
        raise GraphError(
            f"Entry {number} in v has invalid size: should be {leaf._layout.shape} but got "
            f"{_shape_of(direction)}"
        )
    return direction.detach()


def _dual(leaf: Input, direction: Input | None, number: int) -> Input:
    if isinstance(leaf, RRef):
        dual: Any = remote(leaf.owner(), _dual_there, (leaf, direction, number))
        return dual  # type: ignore[no-any-return]
    return make_dual(leaf, _fitting(leaf, direction, number))


def _dual_there(leaf: RRef[Tensor], direction: Input | None, number: int) -> Input:
    """Return, on the owner of a leaf, a dual tensor of the leaf at the caller's level."""
    return _dual(leaf.local_value(), direction, number)


def _dot(
    leaf: Input, direction: Input | None, number: int, context_id: int, strict: bool
) -> Tensor | None:
    """Remove a leaf's gradient from the context, and return its product with the direction."""
    if isinstance(leaf, RRef):
        arguments = (leaf, direction, number, context_id, strict)
        part: Tensor | None = rpc_sync(leaf.owner(), _dot_there, arguments)
        return part
    fitting = _fitting(leaf, direction, number)
    gradient = get_instance().retrieve_context(context_id).take_gradient(leaf)
    if gradient is None:
        if strict:
            raise GraphError(
                f"The output of the user-provided function is independent of input {number}. This "
                "is not allowed in strict mode."
            )
        return None
    if gradient._layout.is_sparse:
        gradient = gradient.to_dense()
    return (gradient * fitting).sum()


def _dot_there(
    leaf: RRef[Tensor], direction: Input | None, number: int, context_id: int, strict: bool
) -> Tensor | None:
    """Run _dot on the leaf's owner; the result belongs to the caller's graph."""
    return _dot(leaf.local_value(), direction, number, context_id, strict)


def _product(leaf: Input, context_id: int) -> Input:
    if isinstance(leaf, RRef):
        # Wait for the product, because the context ends soon.
        product: RRef[Tensor] = rpc_sync(leaf.owner(), _product_there, (leaf, context_id))
        return product
    found = get_instance().retrieve_context(context_id).take_gradient(leaf)
    return zeros_like(leaf).detach() if found is None else found.detach()


def _product_there(leaf: RRef[Tensor], context_id: int) -> RRef[Tensor]:
    """Return, on the leaf's owner, the product that the second pass computed for it."""
    product = _product(leaf.local_value(), context_id)
    assert isinstance(product, Tensor)
    return RRef(product)


fold_public(__name__)
