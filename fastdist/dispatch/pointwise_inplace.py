"""In-place ops that are pointwise ops: `x.add_(y)`, `x += y`.

See Note [In-place on views] in inplace.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import DTypeError
from ..core.overriding import NOT_TAKEN
from ..graph.modes import modes
from ..listeners.offering import operator_of
from ..listeners.sparse_rules import meet_sparse
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from .copy_inplace import overwrite
from .inplace import require_may_change, require_room, set_history, value_of, will_record
from .listening import heard
from .memory import may_overlap, require_apart
from .op import Op, public_function, refuse_devices
from .pointwise import PointwiseOp, _operand, refused
from .tangents import carry_pointwise, levels_of, value_before
from .way import Way, run_silently


class InPlace(Op):
    """A pointwise op that writes its result into its first operand: `x.add_(y)`, and `x += y` for
    one that stands for that operator.
    """

    kind = "in-place"

    def __init__(self, of: PointwiseOp, operator: str = "") -> None:
        said = {
            name: value
            for name, value in vars(of).items()
            if name not in ("public", "doc", "called")
        }
        vars(self).update(
            said,
            name=f"{of.name}_",
            known_as=f"{of.known_as}_",
            has_out=False,
            written=None,
            has_short_path=False,
        )
        self.of, self.operator = of, operator

    @cached_property
    def public(self) -> Callable[..., Any]:
        """The method; whoever asks for its signature is told the declaration's."""
        made: Any = public_function(self)
        made.__wrapped__ = self.declared
        return made  # type: ignore[no-any-return]

    @property
    def doc(self) -> str:
        """What help() says."""
        return (
            f"In-place version of {self.of.name}: writes the result into this tensor and returns "
            "it."
        )

    def calling(self) -> Callable[..., Any]:
        """Return the general path of the public function; as an operator, it returns NotImplemented
        for what no op takes: Python then asks that.
        """
        return operator_of(self, self.operator) if self.operator else super().calling()

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, write, record a Node, carry tangents."""
        if modes.tracers:
            found, operands = heard(self, operands, attributes)
            if found is not NOT_TAKEN:
                return found
        given, operands = operands, tuple([_operand(operand) for operand in operands])
        if refused(operands):
            return meet_sparse(self.name, given, attributes)
        if attributes:
            attributes = self.fitting(attributes)
        of = self.of
        if attributes and of.is_usual(attributes):
            assert isinstance(of.usual, PointwiseOp)
            of, attributes = of.usual, ()
        target: Tensor = operands[0]
        require_may_change(target)
        require_apart(target, operands)
        of_others = of.of_other_ops(operands, attributes)
        if of_others is not None:
            result = of_others(value_of(target, operands[1:]), *operands[1:])
            self._require_complex(target, result)
            return overwrite(self.name, target, result)
        way, tensors = of.prepared(operands, attributes, self)
        require_room(self.name, target, way.facts.shape, way.facts.dtype)
        if way.facts.device is not target.facts.device:
            refuse_devices(self, operands)
        if way.change is None:
            before = value_of(target, operands[1:])
            tensors, operands = _instead(target, before, tensors, operands)
            return overwrite(self.name, target, of.made(way, tensors, operands, attributes))
        return self._change(of, way, tensors, operands, attributes)

    def _change(
        self,
        of: PointwiseOp,
        way: Way,
        tensors: Sequence[Tensor],
        operands: Sequence[Any],
        attributes: Sequence[Any],
    ) -> Tensor:
        """Write of(target, ...) into target at once, record it, and carry tangents."""
        target: Tensor = operands[0]
        recording = will_record(operands, target.facts)
        special = modes.special and bool(levels_of(operands))
        arrays, room = [tensor.array for tensor in tensors], target.array
        kept: Sequence[Any] = operands
        if (recording or special) and of.gradient_needs_first:
            # What a gradient needs of the old value must be kept: it is about to be written over.
            tensors, kept = _instead(target, value_before(target), tensors, operands)
        if room.__class__ is np.ndarray:
            arrays = [
                one.copy() if one is not room and may_overlap(one, room) else one for one in arrays
            ]
        run_silently(way.change, [*arrays, room])
        storage_of(target).bump()
        if recording:
            of.record(target, way, tensors, set_history)
        if special:
            carry_pointwise(of, target, operands, attributes, kept)
        return target

    def _require_complex(self, target: Tensor, result: Tensor) -> None:
        if target.facts.dtype.is_complex and not result.facts.dtype.is_complex:
            raise DTypeError(
                f"In-place {self.of.name} is not supported for complex tensors. Take "
                f"{self.of.name}()."
            )


def _instead(
    target: Tensor, before: Tensor, tensors: Sequence[Tensor], operands: Sequence[Any]
) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Return tensors and operands with what target was before in its place."""
    return (
        [before if one is target else one for one in tensors],
        tuple([before if one is target else one for one in operands]),
    )
