"""Steps of `vmap` that packages call: batches of a level, and trees of axes.

`torch.vmap` does not call these functions: replacing one here does not change it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._C._functorch import _add_batch_dim, _remove_batch_dim, is_batchedtensor  # noqa: F401
from ..core.missing import explain_missing
from ..namespace.vmap import vmap
from ..tensor.pytree import tree_flatten, tree_unflatten
from ..tensor.tensor import Tensor
from ..utils._pytree import _broadcast_to_and_flatten  # noqa: F401

__all__ = ["Tensor", "tree_flatten", "tree_unflatten", "vmap"]


def _get_name(func: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return one result of all calls of a level, with the batch as the axis out_dim.

    Raises  ValueError for a result that is not a tensor, and for a batch where out_dim is None
    """
    if out_dim is None:
        if is_batchedtensor(batched_output):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


explain_missing(__name__)
