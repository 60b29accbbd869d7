"""A Tensor that represents a batch of tensors, one for each call that `vmap` runs in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..core.errors import TransformError
from ..core.torch_function import disabled_torch_function
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor


class NeedsNumbers(RuntimeError):
    """Raised if a function cannot run on a batch, because it reads the values of one tensor."""


class TakesNoBatch(RuntimeError):
    """Raised if a function does not accept a batch, for example if its result's shape depends on
    values.
    """


class Batched(Tensor):
    """A batch at one level of `vmap`: call i has the tensor value[i]. The batch has the layout of
    one such tensor. `value` may be a Batched of an outer level. The batch has no graph or tangents
    of its own: `value` has them.
    """

    __slots__ = ("level", "value")
    __torch_function__ = disabled_torch_function
    value: Tensor
    level: int

    @property
    def _array(self) -> Any:
        """Raise an error: a batch does not have the array of a single tensor."""
        if self.level > levels.depth:
            raise TransformError(
                "Either your tensor may have escaped from inside a function being vmapped and this "
                "is a user error: it is a batch of calls that vmap has ended; let the function "
                "return it"
            )
        raise NeedsNumbers(
            "vmap: a function that has no batching rule reads the numbers of a tensor; call it "
            "outside of the function that vmap is given"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TransformError(
            "vmap: a batch can be neither pickled nor sent to another worker; make one call with "
            "the whole batch, outside of the function that vmap is given, and apply vmap in the "
            "function that it calls, or make a call for each in a loop"
        )

    def detach(self) -> Tensor:
        """Return the same values outside of any graph."""
        return batched(self.value.detach(), self.level)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Raise RuntimeError: inside vmap, the functions of `func` define the inputs of a
        derivative.
        """
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed by a "
            "functorch transform. This is unsupported, please attempt to use the functorch "
            "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
            "of a function being transformed instead."
        )

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        """Whether the value requires grad."""
        return self.value.requires_grad

    @property
    def grad_fn(self) -> Any:
        """The Node of the value."""
        return self.value.grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether the value is a leaf."""
        return self.value.is_leaf

    def item(self) -> Any:
        """Raise an error: each call has a different number."""
        raise NeedsNumbers(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
            "calling .item() on a Tensor, please try to rewrite what you're doing with other "
            "operations."
        )

    tolist = item

    def __bool__(self) -> bool:
        raise NeedsNumbers(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet: choose with where(), or by masks."
        )

    __float__ = __int__ = __index__ = item

    def __repr__(self) -> str:
        return f"BatchedTensor(lvl={self.level}, bdim=0, value=\n{self.value!r}\n)"


class _ThreadState(threading.local):
    depth = 0  # the number of open levels of vmap
    counted = 0  # the number of levels that count_open has counted
    sizes: tuple[int, ...] = ()  # the batch size of each level, outermost first
    randomness: tuple[str, ...] = ()


levels: Final = _ThreadState()


# The key in `routes` of a layout under which the layout of one element of the batch is stored.
_OF_EACH: Final = "layout of each"


def batched(value: Tensor, level: int) -> Tensor:
    """Return value as a batch along its first axis."""
    layout = value._layout
    out: Any = object.__new__(Batched)
    out.value, out.level = value, level
    of_each = layout.routes.get(_OF_EACH)
    if of_each is None:
        of_each = Layout.of(layout.dtype, layout.device, layout.shape[1:])
        layout.routes.remember(_OF_EACH, of_each)
    out._layout = of_each
    out._edge = out._extra = out._storage = None
    return out  # type: ignore[no-any-return]


def level_of(values: Iterable[Any]) -> int:
    """Return the innermost level at which a value is a batch; 0 if no value is one."""
    return max([one.level for one in values if one.__class__ is Batched], default=0)


def batch_at(value: Tensor, level: int) -> Tensor:
    """Return value as a batch along its first axis, like `batched`; value may be a batch of levels
    further in.
    """
    if value.__class__ is Batched and value.level > level:
        inner: Any = value.value
        return batched(batch_at(inner.transpose(0, 1), level), value.level)
    return batched(value, level)


def levels_of(tensors: Iterable[Tensor]) -> list[int]:
    """Return the levels at which any of the tensors is a batch, outermost first."""
    found = set[int]()
    for tensor in tensors:
        while tensor.__class__ is Batched:
            found.add(tensor.level)
            tensor = tensor.value
    return sorted(found)


def sizes_at(which: Iterable[int]) -> list[int]:
    """Return the batch sizes of some levels."""
    return [levels.sizes[level - 1] for level in which]


def unbatched(tensor: Tensor) -> Tensor:
    """Return the plain tensor that holds the values of all calls, for checks that must hold in all
    calls.
    """
    while tensor.__class__ is Batched:
        tensor = tensor.value
    return tensor


def map_unbatched(function: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """Apply an elementwise function to the unbatched tensor, and return the result as a batch."""
    if tensor.__class__ is Batched:
        return batched(map_unbatched(function, tensor.value), tensor.level)
    return function(tensor)


def max_over_batch(counts: Tensor) -> int:
    """Return the greatest element of `counts` over all calls; 0 for an empty batch."""
    every: Any = unbatched(counts)
    return int(every.max()) if every._layout.numel else 0


def same_over_batch(name: str, lengths: Tensor) -> int:
    """Return the length of a result; `lengths` must be equal in all calls. An empty batch has 0.

    Raises  RuntimeError if the lengths differ
    """
    if lengths.__class__ is not Batched:
        return int(lengths)
    most, every = max_over_batch(lengths), unbatched(lengths)
    if every._layout.numel and bool((every != most).any()):
        raise RuntimeError(
            f"vmap: the results of {name} have different lengths, from {int(every.min())} to "
            f"{most}: no tensor can hold them all"
        )
    return most


def value_at(one: Any, level: int, *, size: int | None = None) -> Any:
    """Return the value of a batch at a level. For a tensor that is not a batch at this level,
    return the tensor itself, or, if size is given, expanded to that batch size.
    """
    if one.__class__ is Batched and one.level == level:
        return one.value
    return one if size is None else one.expand(size, *one._layout.shape)


def base_of(tensor: Tensor, depth: int) -> Tensor:
    """Return the tensor without its batches of levels 1 to `depth`. The result begins with the
    batch axes, the axis of the outermost level first.
    """
    return without_batches(tensor, range(1, depth + 1))


def without_batches(tensor: Tensor, which: Sequence[int]) -> Tensor:
    """Return the tensor without its batches. The result begins with a batch axis for each level in
    `which`, in that order: outermost first, with all levels at which the tensor is a batch.
    """
    for level in reversed(which):
        tensor = value_at(tensor, level, size=levels.sizes[level - 1])
    return tensor


def rebatched(base: Tensor, depth: int) -> Tensor:
    """Return base as a batch at the levels 1 to depth: the inverse of base_of."""
    return in_batches(base, range(1, depth + 1))


def in_batches(base: Tensor, which: Iterable[int]) -> Tensor:
    """Return base as a batch at each of the levels in `which`: the inverse of without_batches."""
    for level in which:
        base = batched(base, level)
    return base
