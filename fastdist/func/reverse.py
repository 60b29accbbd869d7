"""Reverse-mode derivatives: grad, vjp and jacrev."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload

from ..autograd.batches_back import pulled_together
from ..autograd.differentiate import grad as _gradients
from ..autograd.forward_ad import make_dual, unpack_dual
from ..core.folded_frames import folds
from ..graph.forward_grad import ForwardADLevel
from ..graph.modes import enable_grad, is_grad_enabled
from ..graph.transform_inputs import differentiating
from ..interpreters.batch_loop import loop, warn_of_loop
from ..interpreters.batched_tensor import (
    base_of,
    batched,
    level_of,
    levels,
    rebatched,
    value_at,
)
from ..interpreters.batching import open_level
from ..ops.create.creation import ones_like, zeros, zeros_like
from ..ops.shape.joining import cat, stack
from ..tensor.tensor import Tensor
from .trees import (
    Argnums,
    Build,
    argument_numbers,
    flatten,
    flatten_result,
    of_argnums,
    require_tensors,
    split_aux,
    unit_tensors,
)

P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")
Ts = TypeVarTuple("Ts")


@overload
def grad(
    func: Callable[Concatenate[Tensor, P], Tensor],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[Tensor, P], Tensor]: ...
@overload
def grad(
    func: Callable[Concatenate[dict[str, Tensor], P], Tensor],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[dict[str, Tensor], P], dict[str, Tensor]]: ...
@overload
def grad(
    func: Callable[P, tuple[Any, Aux]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def grad(
    func: Callable[P, Any], argnums: tuple[int, ...], has_aux: Literal[False] = False
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, Any]: ...


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """Return a function that computes the gradient of func by the arguments that argnums selects.

    `func` returns a tensor without dimensions. With has_aux, `func` returns (tensor, aux), and the
    new function returns (gradient, aux).

    Raises  RuntimeError if func does not return a tensor without dimensions, or an argument is not
            floating-point

    Args:
        func: The function; it returns a tensor without dimensions, or (tensor, aux) with has_aux.
        argnums: The index of the argument to differentiate by, or a tuple of indices.
        has_aux: Whether func returns (tensor, aux).

    Returns:
        A function of the same arguments. It returns the gradient, in the shape of the argument; if
        argnums is a tuple, it returns a tuple of gradients.

    Example:
        >>> from fastdist.func import grad
        >>> grad(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([ 3., 12.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @folds
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


@overload
def grad_and_value(
    func: Callable[Concatenate[Tensor, P], Tensor],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[Tensor, P], tuple[Tensor, Tensor]]: ...
@overload
def grad_and_value(
    func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]: ...


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function like that of `grad`, but its result is (gradient, value of func)."""

    def both(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, build, fresh = _chosen(args, argnums)
            with differentiating(xs):
                value, aux = split_aux(func(*fresh, **kwargs), has_aux, "grad_and_value")
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                    f"{type(value).__name__}"
                )
            if value.dim():
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got "
                    f"tensor with {value.dim()} dims. Maybe you wanted to use the vjp or jacrev "
                    "APIs instead?"
                )
            found = _pulled([value], xs, [None])
        result = (build(found), (value, aux) if has_aux else value)
        return _freed(result, xs)

    return both


@overload
def vjp(
    func: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., tuple[*Ts]]]: ...
@overload
def vjp(
    func: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[..., tuple[*Ts]], Aux]: ...
@overload
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...


# mypy does not accept *primals: Any for *Ts.
@folds  # type: ignore[misc]
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals), and a function that maps a cotangent to its product with the Jacobian.

    A cotangent has the structure of func's result. The returned function gives a tuple with one
    product per primal. With has_aux, func's auxiliary output is returned as a third value.

    Raises  RuntimeError if a primal is not floating-point, or func returns something other than
            tensors

    Args:
        func: The function, which takes primals, and returns a tensor or nested tuples, lists and
            dicts of tensors.
        *primals: Its arguments, tensors or nested tuples, lists and dicts of tensors.
        has_aux: Whether func returns (result, aux).

    Example:
        >>> from fastdist.func import vjp
        >>> value, pull = vjp(torch.sin, torch.zeros(2))
        >>> pull(torch.ones(2))
        (tensor([1., 1.]),)
    """
    with enable_grad():
        xs, build, fresh = _chosen(primals, tuple(range(len(primals))))
        with differentiating(xs):
            value, aux = split_aux(func(*fresh), has_aux, "vjp")
        ys, like = flatten_result(value, "vjp")

    def pull(*cotangents: Any) -> Any:
        given, _ = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if len(given) != len(ys):
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function: got {len(given)} tensors for {len(ys)}"
            )
        with enable_grad():
            found = build(_pulled(ys, xs, given))
        return _freed(found, xs)

    result = (_freed(like(ys), xs), pull)
    return (*result, _freed(aux, xs)) if has_aux else result


@overload
def jacrev(
    func: Callable[Concatenate[Tensor, P], Tensor],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Callable[Concatenate[Tensor, P], Tensor]: ...
@overload
def jacrev(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]: ...


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of func by the arguments that argnums selects.

    For each result y and argument x, the Jacobian is a tensor of shape (*y.shape, *x.shape). Its
    rows are computed in one batch, or in batches of chunk_size rows.

    Raises  RuntimeError if argnums is out of range, an argument is not floating-point, or func
            returns something other than tensors

    Args:
        func: The function; it returns a tensor or nested tuples, lists and dicts of tensors.
        argnums: The index of the argument to differentiate by, or a tuple of indices.
        has_aux: Whether func returns (result, aux).
        chunk_size: The number of rows per batch; all rows are one batch if it is None.

    Example:
        >>> from fastdist.func import jacrev
        >>> jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @folds
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, build, fresh = _chosen(args, argnums)
            with differentiating(xs):
                value, aux = split_aux(func(*fresh, **kwargs), has_aux, "jacrev")
            ys, like = flatten_result(value, "jacrev")
            blocks = []
            for y in ys:
                rows = _rows(y, xs, chunk_size)
                blocks.append(
                    build(
                        [one.reshape(*y.shape, *x.shape) for one, x in zip(rows, xs, strict=True)]
                    )
                )
        result = like(blocks)
        return _freed((result, aux) if has_aux else result, xs)

    return jacobian


def _chosen(args: tuple[Any, ...], argnums: Argnums) -> tuple[list[Any], Build, list[Any]]:
    """Return views of the tensors in the arguments that argnums selects, with respect to which func
    is differentiated; then the function that rebuilds these arguments from tensors, and all
    arguments with the views instead of the tensors.
    """
    numbers = argument_numbers(args, argnums)
    given, build = flatten([args[i] for i in numbers])
    for i in numbers:
        require_tensors(args[i], ValueError, "Thing passed to transform API must be Tensor")
    bases = [base_of(x, levels.depth) for x in given]
    bases = [base.view(base.shape) for base in bases]
    for base in bases:
        if not base.requires_grad:
            base.requires_grad_()
    xs: list[Any] = [rebatched(base, levels.depth) for base in bases]
    fresh = list(args)
    for i, one in zip(numbers, build(xs), strict=True):
        fresh[i] = one
    return xs, lambda leaves: of_argnums(build(leaves), argnums), fresh


def _pulled(ys: list[Any], xs: list[Any], cotangents: list[Any]) -> list[Any]:
    depth, level = level_of(xs), level_of(cotangents)
    if level > depth:
        together = pulled_together(ys, xs, cotangents, depth)
        if together is not None:
            return together
        warn_of_loop("backward")
        columns = loop(lambda *gs: tuple(_pulled(ys, xs, list(gs))), cotangents, level)
        return [batched(one, level) for one in columns]
    ys, xs = [base_of(y, depth) for y in ys], [base_of(x, depth) for x in xs]
    pairs = [
        (y, _cotangent(g, y, depth)) for y, g in zip(ys, cotangents, strict=True) if y.requires_grad
    ]
    if not pairs:
        return [rebatched(zeros_like(x), depth) for x in xs]
    found = _gradients(
        [y for y, _ in pairs], xs, [g for _, g in pairs], create_graph=True, allow_unused=True
    )
    pulled = [zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]
    return [rebatched(g, depth) for g in pulled]


def _rows(y: Any, xs: list[Any], chunk_size: int | None) -> list[Any]:
    """Return the rows of the Jacobians of y by xs, stacked along a first axis."""
    count = y.numel()
    if chunk_size is not None and chunk_size < 1:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    if not count:
        return [zeros(0, dtype=x.dtype, device=x.device) for x in xs]
    parts = []
    for some in unit_tensors(y).split(chunk_size or count):
        size = len(some)
        with open_level(size, "same") as level:
            found: Any = pulled_together([y], xs, [batched(some, level)], level - 1)
            if found is not None:
                found = [value_at(one, level, size=size) for one in found]
        if found is None:
            each = [_pulled([y], xs, [unit]) for unit in some]
            found = [stack(list(column)) for column in zip(*each, strict=True)]
        parts.append(found)
    return parts[0] if len(parts) == 1 else [cat(list(one), 0) for one in zip(*parts, strict=True)]


def _cotangent(given: Any, y: Any, depth: int) -> Any:
    """Return the cotangent of y: `given`, or ones. Outside of vmap, None stands for ones."""
    if given is None:
        return ones_like(y) if depth else None
    return base_of(given, depth)


def _freed(tree: Any, xs: list[Any]) -> Any:
    """Detach the tensors in a tree that depend on no leaves other than `xs`."""
    depth = level_of(xs)
    bases = [base_of(x, depth) for x in xs]
    own = {id(x._edge) for x in bases if x.is_leaf}
    leaves, build = flatten(tree)
    innermost = ForwardADLevel.count() - 1

    def freed(one: Any) -> Any:
        if level_of((one,)) > depth:
            return one
        return rebatched(_freed_at(base_of(one, depth), own, innermost), depth)

    return build([freed(one) for one in leaves])


def _freed_at(one: Any, own: set[int], level: int) -> Any:
    """Detach a tensor under the condition of `_freed`, and also its tangents up to `level`."""
    if level < 0:
        return one if _leads_out(one, own) else one.detach()
    primal, tangent = unpack_dual(one, level=level)
    freed = _freed_at(primal, own, level - 1)
    if tangent is None:
        return freed
    return make_dual(freed, _freed_at(tangent, own, level - 1), level=level)


def _leads_out(result: Any, own: set[int]) -> bool:
    if not is_grad_enabled() or result.grad_fn is None:
        return is_grad_enabled() and result.requires_grad and id(result._edge) not in own
    seen, waiting = set(), [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node.is_accumulate:
            if id(node) not in own:
                return True
            continue
        for following, _ in node.next_functions:
            if following is not None and id(following) not in seen:
                seen.add(id(following))
                waiting.append(following)
    return False
