"""Internal steps of `vmap` that packages call.

If a package assigns its own `_process_batched_inputs`, `_create_batched_inputs` and
`_unwrap_batched` to this module, `torch.vmap` uses them to split arguments and join results.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .._C._functorch import _add_batch_dim, _remove_batch_dim, is_batchedtensor  # noqa: F401
from ..core.missing import explain_missing
from ..namespace.vmap import STEPS, replaced_steps, vmap
from ..tensor.pytree import tree_flatten, tree_unflatten
from ..tensor.tensor import Tensor
from ..utils._pytree import _broadcast_to_and_flatten  # noqa: F401

__all__ = ["Tensor", "tree_flatten", "tree_unflatten", "vmap"]


def _get_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, for messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return the tensor inside a batched result of `vmap_level`, with the batch axis at `out_dim`.

    Raises  ValueError for a result that is not a tensor, or for a batch with out_dim None
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


class _Steps(ModuleType):
    """The class of this module; a function that is assigned to a name in `STEPS` replaces the step
    of `vmap` with that name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in STEPS:
            replaced_steps[name] = value


sys.modules[__name__].__class__ = _Steps
explain_missing(__name__)
