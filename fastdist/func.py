"""Derivatives as functions of functions: grad(f), vjp, jvp, jacrev, jacfwd, hessian.

Arguments and results may be tensors or trees of them: lists, tuples, dicts and containers that are
registered with `utils._pytree`. Results have a graph where they depend on tensors that required
grad before. Inside of a function under vmap, tensors are batches: the derivative is taken of the
unbatched tensor, each call of which depends on its own part alone.

A function should not write what follows from its arguments into a tensor from outside of it, as
`captured.mul_(x)` does: PyTorch raises; here, backwards, that tensor keeps the call's graph and
requires grad from then on. To tell it from one that the function made, every tensor would have to
know when it was made: 28 ns at each op, 4 % of an addition of three numbers, for all programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from .autograd.batches_back import ONE_BY_ONE, pulled_together
from .autograd.differentiate import grad as _gradients
from .autograd.forward_ad import dual_level, make_dual, unpack_dual
from .core.missing import explain_missing
from .core.sequences import all_of
from .core.short_repr import short_repr
from .graph.forward_grad import ForwardADLevel
from .graph.modes import enable_grad, is_grad_enabled
from .graph.transform_inputs import differentiating
from .interpreters.batch_loop import loop, warn_of_loop
from .interpreters.batched_tensor import (
    base_of,
    batched,
    level_of,
    levels,
    rebatched,
    value_at,
)
from .interpreters.batching import open_level
from .namespace.vmap import vmap
from .nn.batch_norm import _BatchNorm
from .nn.module import Module
from .nn.utils.stateless import functional_call
from .ops.create.creation import ones_like, zeros, zeros_like
from .ops.create.ranges import eye
from .ops.shape.joining import cat, stack
from .tensor.pytree import tree_flatten, tree_leaves
from .tensor.tensor import Tensor

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

P = ParamSpec("P")
R = TypeVar("R")
Argnums = int | tuple[int, ...]
Build = Callable[[Sequence[Any]], Any]


def grad(func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Return a function that computes the gradient of func, which returns a single number, with
    respect to the arguments argnums; with has_aux func returns (number, other) and it
    (gradient, other).

    Args:
        func: The function; it returns one number, or (number, other) with has_aux.
        argnums: By which argument to differentiate, or by which ones.
        has_aux: Whether func returns something else as well.

    Returns:
        A function of the same arguments; its result is like the argument, or a tuple for several.

    Example:
        >>> from fastdist.func import grad
        >>> grad(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([ 3., 12.])
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(
    func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """Return a function that computes (gradient, value) of func; see grad."""

    def both(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, build, fresh = _chosen(args, argnums)
            with differentiating(xs):
                value, aux = _split(func(*fresh, **kwargs), has_aux, "grad_and_value")
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
    func: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., tuple[Any, ...]]]: ...
@overload
def vjp(
    func: Callable[..., Any], *primals: Any, has_aux: Literal[True]
) -> tuple[Any, Callable[..., tuple[Any, ...]], Any]: ...
@overload
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals) and a function from cotangents, like the result, to their products with
    the Jacobian, one for each of primals; with has_aux what else func returned comes third.

    Args:
        func: The function.
        *primals: Its arguments.
        has_aux: Whether func returns something else as well.

    Example:
        >>> from fastdist.func import vjp
        >>> value, pull = vjp(torch.sin, torch.zeros(2))
        >>> pull(torch.ones(2))
        (tensor([1., 1.]),)
    """
    with enable_grad():
        xs, build, fresh = _chosen(primals, tuple(range(len(primals))))
        with differentiating(xs):
            value, aux = _split(func(*fresh), has_aux, "vjp")
        ys, like = _flat(value)

    def pull(*cotangents: Any) -> Any:
        given, _ = _flat(cotangents[0] if len(cotangents) == 1 else cotangents)
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
def jvp(
    func: Callable[..., R],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool,
) -> tuple[Any, ...]: ...
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return func(*primals) and the product of its Jacobian with tangents, in forward mode; with
    has_aux what else func returned comes third.

    Args:
        func: The function.
        primals: Its arguments, as a tuple.
        tangents: A direction for each argument.
        strict: Whether a result that does not depend on the arguments is an error.
        has_aux: Whether func returns something else as well.

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
    _require_tensors(primals, RuntimeError, what.format("primals"))
    _require_tensors(tangents, RuntimeError, what.format("tangents"))
    xs, build = _flat(primals)
    ts, _ = _flat(tangents)
    if len(xs) != len(ts):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure, got {len(xs)} and {len(ts)} tensors"
        )
    with dual_level():
        duals = build([make_dual(x, t) for x, t in zip(xs, ts, strict=True)])
        value, aux = _split(func(*duals), has_aux, "jvp")
        ys, like = _flat(value)
        pairs = [unpack_dual(y) for y in ys]
        others, same = _flat(aux)
        aux = same([unpack_dual(one).primal for one in others])
    if strict and any(tangent is None for _, tangent in pairs):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs."
        )
    pushed = [zeros_like(y) if t is None else t for y, t in pairs]
    result = (like([primal for primal, _ in pairs]), like(pushed))
    return (*result, aux) if has_aux else result


def linearize(func: Callable[..., R], *primals: Any) -> tuple[R, Callable[..., R]]:
    """Return func(*primals), and the function of tangents that jvp is there; each call of that runs
    func again.

    Raises  RuntimeError from that function for other tangents than there are primals
    """

    def pushed(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise RuntimeError(
                "Expected the tangents to have the same argspec as the primals: "
                f"{len(primals)} of them, got {len(tangents)}"
            )
        return jvp(func, primals, tangents)[1]

    return func(*primals), pushed


def jacrev(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of func with respect to the arguments argnums,
    all rows at once, or chunk_size at a time: for each result and argument a tensor of shape
    (*result, *argument).

    Args:
        func: The function.
        argnums: By which argument to differentiate, or by which ones.
        has_aux: Whether func returns something else as well.
        chunk_size: How many rows to compute at once; all if None.

    Example:
        >>> from fastdist.func import jacrev
        >>> jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, build, fresh = _chosen(args, argnums)
            with differentiating(xs):
                value, aux = _split(func(*fresh, **kwargs), has_aux, "jacrev")
            ys, like = _flat(value)
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


def jacfwd(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian as jacrev's does, all columns at once, in
    forward mode; randomness is vmap's.

    Args:
        func: The function.
        argnums: By which argument to differentiate, or by which ones.
        has_aux: Whether func returns something else as well.
        randomness: "error", "same" or "different" random numbers in the columns.

    Example:
        >>> from fastdist.func import jacfwd
        >>> jacfwd(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = _numbers(args, argnums)
        xs, build = _flat([args[i] for i in numbers])

        def inner(*chosen: Any) -> Any:
            given = list(args)
            for i, one in zip(numbers, build(chosen), strict=True):
                given[i] = one
            return func(*given, **kwargs)

        columns: list[list[Any]] = []
        ys: list[Any] = []
        like: Build = tuple
        aux: Any = None
        for k, x in enumerate(xs):
            if x.numel():
                found, ys, like, aux = _columns(inner, xs, k, has_aux, randomness)
                columns.append(found)
            else:
                columns.append([])
        if not any(columns):
            # There is nothing to push, only to see of what shape the results are.
            value = inner(*xs)
            value, aux = value if has_aux else (value, None)
            ys, like = _flat(value)
        blocks = []
        for j, y in enumerate(ys):
            block = [
                of[j].reshape(x.numel(), y.numel()).t().reshape(*y.shape, *x.shape)
                if of
                else zeros(*y.shape, *x.shape, dtype=y.dtype, device=y.device)
                for of, x in zip(columns, xs, strict=True)
            ]
            blocks.append(_of_argnums(build(block), argnums))
        result = like(blocks)
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Callable[P, Any], argnums: Argnums = 0) -> Callable[P, Any]:
    """Return a function that computes the second derivatives of func: forward over reverse.

    Args:
        func: The function; it returns one number.
        argnums: By which argument to differentiate, or by which ones.

    Example:
        >>> from fastdist.func import hessian
        >>> hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch norms in root forget their running numbers, and keep none; return root."""
    for one in root.modules():
        if isinstance(one, _BatchNorm):
            one.running_mean = one.running_var = one.num_batches_tracked = None
            one.track_running_stats = False
    return root


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of several like models, by name, each stacked along a
    new first axis; the parameters are leaves.

    Raises  RuntimeError for no models, of different classes, or not all in one mode
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(of: Callable[[Module], Any]) -> dict[str, Any]:
        each = [dict(of(model)) for model in models]
        return {
            name: stack([one[name] for one in each]).detach().requires_grad_(first.requires_grad)
            for name, first in each[0].items()
        }

    return stacked(Module.named_parameters), stacked(Module.named_buffers)


def _flat(tree: Any) -> tuple[list[Any], Build]:
    """Return the tensors in a tree, and what builds a like tree."""
    leaves, spec = tree_flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def build(tensors: Sequence[Any]) -> Any:
        built = list(leaves)
        for i, one in zip(places, tensors, strict=True):
            built[i] = one
        return spec.unflatten(built)

    return [leaves[i] for i in places], build


def _require_tensors(tree: Any, kind: type[Exception], expected: str) -> None:
    """Raise if something in a tree is no Tensor: what is not to be differentiated is left out of
    argnums, or the function closes over it.
    """
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, Tensor):
            raise kind(f"{expected}, got {type(leaf)}")


def _numbers(args: tuple[Any, ...], argnums: Argnums) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else all_of(argnums)
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise RuntimeError(
                f"Got argnum={short_repr(i)}, but only {len(args)} positional inputs"
            )
    return [i % len(args) for i in numbers]


def _of_argnums(chosen: Any, argnums: Argnums) -> Any:
    return chosen[0] if isinstance(argnums, int) else tuple(chosen)


def _chosen(args: tuple[Any, ...], argnums: Argnums) -> tuple[list[Any], Build, list[Any]]:
    """Return views of the arguments' tensors at which a pass stops, what builds the like of the
    arguments argnums from them, and all arguments with the views in their places.
    """
    numbers = _numbers(args, argnums)
    given, build = _flat([args[i] for i in numbers])
    for i in numbers:
        _require_tensors(args[i], ValueError, "Thing passed to transform API must be Tensor")
    bases = [base_of(x, levels.depth) for x in given]
    bases = [base.view(base.shape) for base in bases]
    for base in bases:
        if not base.requires_grad:
            base.requires_grad_()
    xs: list[Any] = [rebatched(base, levels.depth) for base in bases]
    fresh = list(args)
    for i, one in zip(numbers, build(xs), strict=True):
        fresh[i] = one
    return xs, lambda leaves: _of_argnums(build(leaves), argnums), fresh


def _split(value: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return value, None
    if not isinstance(value, tuple) or len(value) != 2:
        raise RuntimeError(
            f"{what}(f, has_aux=True): output of function f should be a tuple: (output, aux), got "
            f"{type(value).__name__}"
        )
    return value


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


def _columns(
    func: Callable[..., Any], xs: list[Any], k: int, has_aux: bool, randomness: str
) -> tuple[list[Any], list[Any], Build, Any]:
    """Return the columns by the k-th of xs of the Jacobians of what func returns, along a first
    axis; its results, what builds the like of them, and what else it returned.
    """
    units, zero = _units(xs[k]), [zeros_like(x) for x in xs]

    def push(unit: Any) -> tuple[Any, Any, Any]:
        ts = (*zero[:k], unit, *zero[k + 1 :])
        value, tangent, *rest = jvp(func, tuple(xs), ts, has_aux=has_aux)
        return value, tangent, rest[0] if rest else None

    size = len(units)
    with open_level(size, randomness) as level:
        try:
            value, tangent, aux = push(batched(units, level))
        except ONE_BY_ONE:
            pass  # func looks at numbers, or calls another worker: see Note [Batches that go back]
        else:
            columns = [value_at(one, level, size=size) for one in _flat(tangent)[0]]
            ys, like = _flat(value)
            aux, of_call = _flat(aux)
            first = [_first(one, level) for one in ys], of_call([_first(one, level) for one in aux])
            return columns, first[0], like, first[1]
    each = [push(unit) for unit in units]
    stacked = [stack(list(one)) for one in zip(*[_flat(t)[0] for _, t, _ in each], strict=True)]
    ys, like = _flat(each[-1][0])
    return stacked, ys, like, each[-1][2]


def _first(one: Any, level: int) -> Any:
    """Return the results of a level's first call, whose structure all calls share."""
    value = value_at(one, level)
    return one if value is one else value[0]


def _rows(y: Any, xs: list[Any], chunk_size: int | None) -> list[Any]:
    """Return the rows of y's Jacobians by xs, along a first axis."""
    count = y.numel()
    if chunk_size is not None and chunk_size < 1:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    if not count:
        return [zeros(0, dtype=x.dtype, device=x.device) for x in xs]
    parts = []
    for some in _units(y).split(chunk_size or count):
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
    """Return the cotangent of the batched result y: ones, unless one is given."""
    if given is None:
        return ones_like(y) if depth else None
    return base_of(given, depth)


def _freed(tree: Any, xs: list[Any]) -> Any:
    """Return a tree of results without the graphs that lead to nothing but our own leaves."""
    depth = level_of(xs)
    bases = [base_of(x, depth) for x in xs]
    own = {id(x._edge) for x in bases if x.is_leaf}
    leaves, build = _flat(tree)
    innermost = ForwardADLevel.count() - 1

    def freed(one: Any) -> Any:
        if level_of((one,)) > depth:
            return one
        return rebatched(_freed_at(base_of(one, depth), own, innermost), depth)

    return build([freed(one) for one in leaves])


def _freed_at(one: Any, own: set[int], level: int) -> Any:
    """Return one result freed, and its tangents at all levels up to this one."""
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


def _units(like: Any) -> Any:
    """Return the tensors of like's shape that are 1 at one element, and 0 else."""
    n = like.numel()
    found: Any = eye(n, dtype=like.dtype, device=like.device)
    return found.reshape(n, *like.shape)


explain_missing(__name__)
