"""Tensors of modules: dispatch and RPC know Parameter, and nn re-exports what is here."""

from __future__ import annotations

from ..core.overriding import NEVER_ASKED, disabled_torch_function
from .tensor import Tensor


class Parameter(Tensor):
    """A Tensor that a Module registers when it is assigned as an attribute; requires grad unless
    told otherwise.

    Note    unlike other tensors it takes attributes of the user's own: no op makes one, so that a
            place for them costs no call
    """

    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        parameter: Parameter = object.__new__(cls)
        source = data.detach() if data is not None else _empty()
        parameter.array, parameter.facts = source.array, source.facts
        parameter._storage = source._storage
        parameter.edge = parameter.extra = None
        parameter.requires_grad_(requires_grad)
        return parameter

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A Tensor that a Module registers as a buffer when it is assigned as an attribute, saved with
    the module if persistent.
    """

    persistent: bool
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer: Buffer = object.__new__(cls)
        source = data.detach() if data is not None else _empty()
        buffer.array, buffer.facts, buffer._storage = source.array, source.facts, source._storage
        buffer.edge = buffer.extra = None
        buffer.requires_grad_(data is not None and data.requires_grad)
        buffer.persistent = persistent
        return buffer


NEVER_ASKED.update({Parameter, Buffer})


def _empty() -> Tensor:
    import numpy as np

    from .tensor import from_array

    return from_array(np.empty((0,), np.float32))
