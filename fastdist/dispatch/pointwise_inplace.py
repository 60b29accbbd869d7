"""In-place ops that are pointwise ops: `x.add_(y)`, `x += y`.

See Note [In-place on views] in inplace.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..core.errors import DTypeError
from ..graph.lazy_conj_neg import LazyConjNeg, write_through
from ..interpreters.torch_function import operator_of
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from ..tensor.writable import may_overlap, require_apart
from .copy_inplace import TWIN_DOC, overwrite
from .general_path import GeneralPath
from .inplace import require_may_change, require_result_fits, set_history, value_of, will_record
from .needs_derivative import has_tangents
from .op import Given, Op, P, R, public_function, refuse_devices
from .pointwise import PointwiseOp
from .route import Route, arrays_of, run_silently
from .tangents import value_before

# The attributes that an in-place op shares with the op whose result it writes.
_COPIED: Final = tuple(
    [n for n in (*Op.__slots__, *PointwiseOp.__slots__) if not n.startswith("__")]
)


class InPlace(GeneralPath[P, R]):
    """A pointwise op that writes its result into its first operand: `x.add_(y)`, and `x += y` for
    the op of that operator.
    """

    kind = "in-place"
    resolves = False

    def __init__(self, of: PointwiseOp[P, R], operator: str = "") -> None:
        self.call_later()
        for name in _COPIED:
            setattr(self, name, getattr(of, name))
        if "homes" in vars(of):
            self.homes = of.homes
        self.name, self.known_as = f"{of.name}_", f"{of.known_as}_"
        self.has_out, self.written, self.has_short_path = False, None, False
        self.functional_op, self.operator = of, operator

    @cached_property
    def public(self) -> Callable[..., R]:
        """The method; its signature is the declaration's."""
        made: Any = public_function(self)
        made.__wrapped__ = self.declared
        return made  # type: ignore[no-any-return]

    @property
    def doc(self) -> str:
        """The text of help()."""
        return TWIN_DOC.format(self.functional_op.name)

    def general_call(self) -> Callable[..., Any]:
        """Return the general path of the public function; as an operator, it returns NotImplemented
        for operands that no op takes: Python then tries the other operand.
        """
        return operator_of(self, self.operator) if self.operator else super().general_call()

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return a function that overwrites the first operand with the result of other ops, or
        None.
        """
        target: Tensor = operands[0]
        if isinstance(target, LazyConjNeg):
            return lambda target, *others: write_through(
                target, lambda numbers: self.general((numbers, *others), attributes)
            )
        require_may_change(target)
        require_apart(target, operands)
        decomposition = self.functional_op.decomposition(operands, attributes)
        if decomposition is None:
            return None

        def change(target: Tensor, *others: Any) -> Tensor:
            result = decomposition(value_of(target, others), *others)
            if target._layout.dtype.is_complex and not result._layout.dtype.is_complex:
                raise DTypeError(
                    f"In-place {self.functional_op.name} is not supported for complex tensors. "
                    "Take "
                    f"{self.functional_op.name}()."
                )
            return overwrite(self.name, target, result)

        return change

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Return how to run, and operands and attributes as tensors.

        Raises  RuntimeError for a result that the first operand cannot hold
        """
        route, values = self.functional_op.route_call(operands, attributes, called)
        require_result_fits(self.name, operands[0], route.layout.shape, route.layout.dtype)
        if route.layout.device is not operands[0]._layout.device:
            refuse_devices(self, operands)
        return route, values

    def run_recorded(self, route: Route, values: Given) -> Any:
        """Return the first operand, overwritten, recorded and with tangents."""
        target: Tensor = values[0]
        recording = will_record(values, target._layout)
        special = has_tangents(values)
        if (recording or special) and route.layout.dtype is not target._layout.dtype:
            # Its gradients are those of the result before the cast.
            made = self.functional_op.run_recorded(route, _with(values, value_before(target)))
            return overwrite(self.name, target, made)
        arrays, room, kept = arrays_of(values), target._array, values
        if (recording or special) and self.functional_op.form.derivatives_need_first(
            keeps_spare=route.keeps_spare
        ):
            # Old values that a gradient needs must be kept: they will be overwritten.
            kept = _with(values, value_before(target))
        if recording or special:
            # The same holds for a further operand with the same memory, as x.detach().
            memory = storage_of(target)
            first, *others = kept
            kept = (first, *[value_before(o) if o._storage is memory else o for o in others])
        if room.__class__ is np.ndarray:
            arrays = [
                one.copy() if one is not room and may_overlap(one, room) else one for one in arrays
            ]
        run_silently(route.change, [*arrays, room])
        storage_of(target).bump()
        if recording:
            self.functional_op.record((target,), kept, route, _attach)
        if special:
            self.functional_op.carry_tangents((target,), values, route, kept)
        return target


def _attach(target: Tensor, node: Any) -> None:
    node.in_place = True
    set_history(target, node)


def _with(values: Given, before: Tensor) -> Given:
    """Return values with the old value of the first operand in its places."""
    return tuple([before if one is values[0] else one for one in values])
