"""Copying forms of view ops and of in-place ops, such as `t_copy` and `fill`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.memory_format import contiguous_format
from ...dispatch.composite import COMPOSITES, checked
from ...dispatch.declaration import LateSignature
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.axes import normalize_axis
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from .. import late_ops
from . import views
from .diagonal import diagonal
from .views import squeeze


def _copied(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `view` and returns copies of its results."""

    def copied(input: Tensor, *args: Any, out: GivenOut = None, **kwargs: Any) -> Any:
        found = view(input, *args, **kwargs)
        if isinstance(found, tuple | list):
            copies: Any = tuple([one.clone(memory_format=contiguous_format) for one in found])
        else:
            copies = found.clone(memory_format=contiguous_format)
        return store_in_out(name, out, copies, (input,))

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"Return a copy of the result of {name.removesuffix('_copy')}."
    made = checked(copied)
    made.__signature__ = LateSignature(view, has_out=True)  # type: ignore[attr-defined]
    return made


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    axis = normalize_axis("slice_copy", dim, len(input._layout.shape))
    return input[(slice(None),) * axis + (slice(start, end, step),)]


alias_copy = _copied("alias_copy", lambda input: input)
as_strided_copy = _copied("as_strided_copy", COMPOSITES["as_strided"].call)
detach_copy = _copied("detach_copy", lambda input: input)
diagonal_copy = _copied("diagonal_copy", diagonal.public)
expand_copy = _copied("expand_copy", lambda input, size, *, implicit=False: input.expand(size))
indices_copy = _copied("indices_copy", lambda input: input.indices())
permute_copy = _copied("permute_copy", lambda input, dims: input.permute(dims))
select_copy = _copied("select_copy", lambda input, dim, index: input.select(dim, index))
slice_copy = _copied("slice_copy", _slice)
split_copy = _copied("split_copy", lambda input, split_size, dim=0: input.split(split_size, dim))
split_with_sizes_copy = _copied(
    "split_with_sizes_copy",
    lambda input, split_sizes, dim=0: input.split_with_sizes(split_sizes, dim),
)
squeeze_copy = _copied("squeeze_copy", squeeze.public)
t_copy = _copied("t_copy", views.t)
transpose_copy = _copied("transpose_copy", lambda input, dim0, dim1: input.transpose(dim0, dim1))
unbind_copy = _copied("unbind_copy", lambda input, dim=0: input.unbind(dim))
unfold_copy = _copied(
    "unfold_copy", lambda input, dimension, size, step: input.unfold(dimension, size, step)
)
unsqueeze_copy = _copied("unsqueeze_copy", lambda input, dim: input.unsqueeze(dim))
values_copy = _copied("values_copy", lambda input: input.values())
view_as_complex_copy = _copied("view_as_complex_copy", late_ops.view_as_complex.public)
view_as_real_copy = _copied(
    "view_as_real_copy",
    lambda input: late_ops.view_as_real(COMPOSITES["resolve_conj"].call(input)),
)
view_copy = _copied("view_copy", lambda input, size: input.view(size))


@checked
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """Return a copy of input in which each element is value, a number or a 0-d tensor."""
    return input.clone().fill_(value)
