"""`vmap`: maps a function of one example over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from ..core.folded_frames import folds
from ..core.short_repr import short_text
from ..dispatch.composite import COMPOSITES
from ..dispatch.op import PLAIN
from ..interpreters.batched_tensor import Batched, batched, value_at
from ..interpreters.batching import open_level
from ..random_numbers.generator import bookmarks, go_to_all
from ..tensor.pytree import TreeSpec, tree_flatten, tree_is_leaf, tree_leaves
from ..tensor.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Dims = int | None | tuple[Any, ...] | list[Any] | dict[str, Any]


def vmap(
    func: Callable[P, R],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """Return a function that runs func on all slices of its arguments at the same time.

    Arguments are sliced along in_dims (None: not sliced), and results are stacked along out_dims.
    `vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)` returns the gradients of each
    sample in one pass. Arguments and results may be trees of lists, tuples and dicts. Keyword
    arguments are not sliced.

    Raises  ValueError for dims that do not fit; RuntimeError for random numbers with
            randomness="error", or for control flow that depends on the values of a slice
    Note    an op without a batching rule runs once for each slice, and a warning names the op

    Args:
        func: The function; it gets one slice of each argument.
        in_dims: The axis along which to slice each argument; None if it is not sliced.
        out_dims: The position of the new axis in each result.
        randomness: "same" or "different" random numbers for the slices, or "error" for none.
        chunk_size: How many slices are computed at the same time; None for all slices.

    Example:
        >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
        tensor([2., 2., 2.])
    """
    _require_usable(randomness, chunk_size)
    is_plain = chunk_size is None and _is_zero(in_dims) and _is_zero(out_dims)

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(replaced_steps) == len(STEPS):
            return _by_replaced_steps(func, in_dims, out_dims, randomness, args, kwargs)
        if is_plain and (size := _common_size(args)):
            return _at_once(func, args, kwargs, size, randomness)
        leaves, dims, spec = _sliced(func, in_dims, args)
        size = _size_of(leaves, dims)
        values = [_first(x, d) for x, d in zip(leaves, dims, strict=True)]

        def results(begin: int, end: int) -> tuple[list[Any], list[Any], TreeSpec]:
            """Return func's results for slices begin to end: leaves, new axes, and TreeSpec."""
            chosen: list[Any] = values
            if end - begin < size:
                chosen = [
                    x if d is None else x[begin:end] for x, d in zip(values, dims, strict=True)
                ]
            with open_level(end - begin, randomness) as level:
                given = [
                    x if d is None else batched(x, level) for x, d in zip(chosen, dims, strict=True)
                ]
                result = func(*spec.unflatten(given), **kwargs)
                return _gathered(func, result, out_dims, level, end - begin)

        return _in_chunks(results, size, chunk_size or size, randomness)

    return folds(wrapped)


def _in_chunks(results: Callable[[int, int], Any], size: int, chunk: int, randomness: str) -> Any:
    """Return the results for all slices, computed in chunks."""
    if size <= chunk:
        found, _, like = results(0, size)
        return like.unflatten(found)
    columns = []
    marks = bookmarks() if randomness == "same" else []
    for begin in range(0, size, chunk):
        if begin:
            go_to_all(marks)
        found, wanted, like = results(begin, min(begin + chunk, size))
        columns.append(found)
    parts = zip(zip(*columns, strict=True), wanted, strict=True)
    return like.unflatten(x[0] if d is None else _cat(list(x), d) for x, d in parts)


def _require_usable(randomness: str, chunk_size: int | None) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


# Steps that packages replace in torch._functorch.vmap: tensordict's steps also accept tensordicts.
STEPS: Final = ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched")
replaced_steps: dict[str, Callable[..., Any]] = {}


def _by_replaced_steps(
    func: Callable[..., Any],
    in_dims: Dims,
    out_dims: Dims,
    randomness: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Return the results for all slices, using the functions in `replaced_steps` to slice the
    arguments and to stack the results.
    """
    process, create, unwrap = [replaced_steps[name] for name in STEPS]
    size, dims, leaves, spec = process(in_dims, args, func)
    with open_level(size, randomness) as level:
        result = func(*create(dims, leaves, level, spec), **kwargs)
        return unwrap(result, out_dims, level, size, func)


def _cat(parts: list[Tensor], dim: int) -> Tensor:
    return COMPOSITES["cat"].call(parts, dim)  # type: ignore[no-any-return]


def _is_zero(dims: Dims) -> bool:
    """Return whether dims is the number 0, which is the usual case."""
    return dims.__class__ is int and dims == 0


def _at_once(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    size: int,
    randomness: str,
) -> Any:
    """Return the results for all slices of plain tensors along their first axes."""
    with open_level(size, randomness) as level:
        result = func(*[batched(one, level) for one in args], **kwargs)
        if result.__class__ is Batched:
            return value_at(result, level, size=size)
        found, _, like = _gathered(func, result, 0, level, size)
    return like.unflatten(found)


def _common_size(args: tuple[Any, ...]) -> int:
    """Return the length of the arguments' first axis; 0 if the arguments differ in this length, or
    if one is not a plain, dense tensor with an axis.
    """
    size = 0
    for arg in args:
        if arg.__class__ not in PLAIN or not (shape := arg._layout.shape):
            return 0
        if size not in (0, shape[0]) or arg._layout.is_sparse:
            return 0
        size = shape[0]
    return size


def _first(arg: Any, dim: int | None) -> Any:
    return arg if dim is None or dim == 0 else arg.movedim(dim, 0)


# ---- Arguments ----------------------------------------------------------------------------------


def _sliced(
    func: Callable[..., Any], in_dims: Dims, args: tuple[Any, ...]
) -> tuple[list[Any], list[int | None], TreeSpec]:
    """Return the leaves of args, the axis along which each leaf is sliced, and args' TreeSpec.

    Raises  ValueError for in_dims that do not fit
    """
    name, told = _name(func), _Told(func, in_dims)
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{told}expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)

    def fault() -> ValueError:
        return ValueError(
            f"{told}in_dims is not compatible with the structure of `inputs`: in_dims is "
            f"{short_text(in_dims)}, inputs are {spec}."
        )

    dims = _spread(in_dims, args, fault)
    checked: list[int | None] = []
    for arg, dim in zip(leaves, dims, strict=True):
        if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise ValueError(
                f"{told}Got in_dim={short_text(dim)} for an input but in_dim must be either an "
                "integer "
                "dimension or None."
            )
        if dim is not None and not isinstance(arg, Tensor):
            raise ValueError(
                f"{told}Got in_dim={short_text(dim)} for an input but the input is of type "
                f"{type(arg)}. We "
                "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if dim is not None and not -arg.dim() <= dim < arg.dim():
            raise ValueError(
                f"{told}Got in_dim={short_text(dim)} for some input, but that input is a Tensor of "
                f"dimensionality {arg.dim()} so expected in_dim to satisfy -{arg.dim()} <= in_dim "
                f"< {arg.dim()}."
            )
        checked.append(None if dim is None else dim % arg.dim())
    return leaves, checked, spec


def _size_of(leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [x._layout.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


# ---- Results ------------------------------------------------------------------------------------


def _gathered(
    func: Callable[..., Any], result: Any, out_dims: Dims, level: int, size: int
) -> tuple[list[Any], list[Any], TreeSpec]:
    leaves, spec = tree_flatten(result)

    def fault() -> ValueError:
        return ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            "with the structure of `outputs`."
        )

    dims = _spread(out_dims, result, fault)
    name = _name(func)
    found = []
    for one, dim in zip(leaves, dims, strict=True):
        if dim is None:
            if isinstance(one, Tensor) and value_at(one, level) is not one:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is "
                    "None"
                )
            found.append(one)
            continue
        if not isinstance(one, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(one)}. Did "
                "you mean to set out_dims= to None for output?"
            )
        value = value_at(one, level, size=size)
        found.append(value if dim == 0 else value.movedim(0, dim))
    return found, dims, spec


# ---- Trees --------------------------------------------------------------------------------------


def _spread(dims: Any, tree: Any, fault: Callable[[], ValueError]) -> list[Any]:
    """Return the dim of each leaf of a tree; a dim that is given for a branch applies to all leaves
    of the branch.

    Raises  the error that fault returns, if the structures of dims and tree differ
    """
    if isinstance(dims, list | tuple):
        if isinstance(tree, list | tuple) and len(tree) == len(dims):
            pairs = zip(dims, tree, strict=True)
            return [one for d, part in pairs for one in _spread(d, part, fault)]
        if len(dims) == 1 and tree_is_leaf(tree):
            return [dims[0]]
        raise fault()
    if isinstance(dims, dict):
        if not isinstance(tree, dict) or dims.keys() != tree.keys():
            raise fault()
        return [one for key, part in tree.items() for one in _spread(dims[key], part, fault)]
    return [dims] * len(tree_leaves(tree))


class _Told:
    """The beginning of an error message, formatted only when needed."""

    def __init__(self, func: Callable[..., Any], in_dims: Dims) -> None:
        self._func, self._in_dims = func, in_dims

    def __str__(self) -> str:
        given = short_text(self._in_dims)
        return f"vmap({_name(self._func)}, in_dims={given}, ...)(<inputs>): "


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))
