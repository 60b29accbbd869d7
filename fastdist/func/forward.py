"""Forward-mode derivatives: jvp, linearize, jacfwd; and hessian, which is forward over reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload

from ..autograd.batches_back import ONE_BY_ONE
from ..autograd.forward_ad import dual_level, make_dual, unpack_dual
from ..core.folded_frames import folds
from ..interpreters.batched_tensor import batched, value_at
from ..interpreters.batching import open_level
from ..ops.create.creation import zeros, zeros_like
from ..ops.shape.joining import stack
from ..tensor.tensor import Tensor
from .reverse import jacrev
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
def jvp(
    func: Callable[[*Ts], R],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    strict: bool = False,
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    func: Callable[[*Ts], tuple[R, Aux]],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    strict: bool = False,
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool,
) -> tuple[Any, ...]: ...


@folds
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return func(*primals) and the product of its Jacobian with tangents, in forward mode.

    With has_aux, func's auxiliary output is returned as a third value.

    Raises  RuntimeError if the tangents do not fit primals in number, shape or dtype, or func
            returns something other than tensors

    Args:
        func: The function, which takes primals, and returns a tensor or nested tuples, lists and
            dicts of tensors.
        primals: Its arguments, as a tuple.
        tangents: A direction for each argument.
        strict: Whether to raise an error if a result does not depend on the arguments.
        has_aux: Whether func returns (result, aux).

    Example:
        >>> from fastdist.func import jvp
        >>> jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to be tuples, got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    what = "jvp(f, primals, tangents): Expected {} to only contain Tensors"
    require_tensors(primals, RuntimeError, what.format("primals"))
    require_tensors(tangents, RuntimeError, what.format("tangents"))
    xs, build = flatten(primals)
    ts, _ = flatten(tangents)
    if len(xs) != len(ts):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure, got {len(xs)} and {len(ts)} tensors"
        )
    with dual_level():
        duals = build([make_dual(x, t) for x, t in zip(xs, ts, strict=True)])
        value, aux = split_aux(func(*duals), has_aux, "jvp")
        ys, like = flatten_result(value, "jvp")
        pairs = [unpack_dual(y) for y in ys]
        others, same = flatten(aux)
        aux = same([unpack_dual(one).primal for one in others])
    if strict and any(tangent is None for _, tangent in pairs):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs."
        )
    pushed = [zeros_like(y) if t is None else t for y, t in pairs]
    result = (like([primal for primal, _ in pairs]), like(pushed))
    return (*result, aux) if has_aux else result


def linearize(func: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[*Ts], R]]:
    """Return func(*primals), and a function that maps tangents to the jvp at primals.

    Each call of the returned function runs func again.

    Raises  RuntimeError from the returned function if the numbers of tangents and primals
            differ
    """

    def pushed(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise RuntimeError(
                "Expected the tangents to have the same argspec as the primals: "
                f"{len(primals)} of them, got {len(tangents)}"
            )
        return jvp(func, primals, tangents)[1]

    return func(*primals), pushed  # type: ignore[return-value]


@overload
def jacfwd(
    func: Callable[Concatenate[Tensor, P], Tensor],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    randomness: str = "error",
) -> Callable[Concatenate[Tensor, P], Tensor]: ...
@overload
def jacfwd(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[P, Any]: ...


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of func in forward mode, in jacrev's layout.

    Raises  RuntimeError if argnums is out of range, or func returns something other than tensors;
            ValueError if an argument is a tensor of integers

    Args:
        func: The function; it returns a tensor, or a list, tuple or dict of tensors.
        argnums: The index of the argument to differentiate by, or a tuple of indices.
        has_aux: Whether func returns (result, aux).
        randomness: "error", "same" or "different", as for vmap, which computes the columns.

    Example:
        >>> torch.func.jacfwd(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = argument_numbers(args, argnums)
        xs, build = flatten([args[i] for i in numbers])

        def inner(*chosen: Any) -> Any:
            given = list(args)
            for i, one in zip(numbers, build(chosen), strict=True):
                given[i] = one
            return func(*given, **kwargs)

        columns, ys = list[list[Any]](), list[Any]()
        like: Build = tuple
        aux: Any = None
        for k, x in enumerate(xs):
            found: list[Any] = []
            if x.numel():
                found, ys, like, aux = _columns(inner, xs, k, has_aux, randomness)
            columns.append(found)
        if not any(columns):
            # The inputs have no elements, so run func only for the shapes of its results.
            value = inner(*xs)
            value, aux = split_aux(value, has_aux, "jacfwd")
            ys, like = flatten_result(value, "jacfwd")
        blocks = []
        for j, y in enumerate(ys):
            block = [
                of[j].reshape(x.numel(), y.numel()).t().reshape(*y.shape, *x.shape)
                if of
                else zeros(*y.shape, *x.shape, dtype=y.dtype, device=y.device)
                for of, x in zip(columns, xs, strict=True)
            ]
            blocks.append(of_argnums(build(block), argnums))
        return (like(blocks), aux) if has_aux else like(blocks)

    return folds(jacobian)


@overload
def hessian(
    func: Callable[Concatenate[Tensor, P], Tensor],
    argnums: Literal[0] = 0,
) -> Callable[Concatenate[Tensor, P], Tensor]: ...
@overload
def hessian(
    func: Callable[P, Any],
    argnums: Argnums = 0,
) -> Callable[P, Any]: ...


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of func: forward over reverse.

    Raises  ValueError if an argument is not floating-point or complex; RuntimeError if argnums is
            out of range, or func returns something other than tensors

    Args:
        func: The function; it returns a tensor of one element, or of several: then there are
            second derivatives of each.
        argnums: The index of the argument to differentiate by, or a tuple of indices.

    Example:
        >>> from fastdist.func import hessian
        >>> hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _columns(
    func: Callable[..., Any], xs: list[Any], k: int, has_aux: bool, randomness: str
) -> tuple[list[Any], list[Any], Build, Any]:
    """Return the columns of the Jacobians of func's results by xs[k], stacked along a first axis;
    then the results, the function that rebuilds their tree, and func's auxiliary output.
    """
    units, zero = unit_tensors(xs[k]), [zeros_like(x) for x in xs]

    def push(unit: Any) -> tuple[Any, Any, Any]:
        ts = (*zero[:k], unit, *zero[k + 1 :])
        value, tangent, *rest = jvp(func, tuple(xs), ts, has_aux=has_aux)
        return value, tangent, rest[0] if rest else None

    size = len(units)
    with open_level(size, randomness) as level:
        try:
            value, tangent, aux = push(batched(units, level))
        except ONE_BY_ONE:
            pass  # func accepts no batch: run it per column, see Note [Batches that go back]
        else:
            columns = [value_at(one, level, size=size) for one in flatten(tangent)[0]]
            ys, like = flatten(value)
            aux, of_call = flatten(aux)
            first = [_first(one, level) for one in ys], of_call([_first(one, level) for one in aux])
            return columns, first[0], like, first[1]
    each = [push(unit) for unit in units]
    stacked = [stack(list(one)) for one in zip(*[flatten(t)[0] for _, t, _ in each], strict=True)]
    ys, like = flatten(each[-1][0])
    return stacked, ys, like, each[-1][2]


def _first(one: Any, level: int) -> Any:
    """Return the first entry of `one` if it is a batch of this level, else `one` itself."""
    value = value_at(one, level)
    return one if value is one else value[0]
