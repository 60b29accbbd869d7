"""In-place twins: of pointwise ops, `x.add_(y)` and `x += y`, and of functions made of ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from ..core.torch_function import NOT_TAKEN, offer
from ..graph.lazy_conj_neg import LazyConjNeg, write_through
from ..interpreters.torch_function import operator_of
from ..tensor.tensor import Tensor
from .call import GeneralPath
from .op import OPS, Given, Op, P, R, public_function
from .pointwise import PointwiseOp
from .route import Route
from .signature import ArgumentError
from .target import First, Target

# The text of help() for an in-place twin.
TWIN_DOC: Final = "In-place version of {}: writes the result into this tensor and returns it."
# The attributes that an in-place op shares with the op whose result it writes.
_COPIED: Final = (
    *[name for name in Op.__slots__ if not name.startswith("__")],
    *("form", "may_record", "number_names", "usual"),
)


class InPlace(GeneralPath[P, R]):
    """A pointwise op that writes over its first operand: `x.add_(y)`, or `x += y`."""

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

    def target_of(self, operands: Given, out: Any) -> First:
        return First(self.name, operands[0], self.functional_op)

    def run_call(self, operands: Given, attributes: Given, target: Target) -> Any:
        first, *others = operands
        if first.__class__ is LazyConjNeg:
            again = lambda numbers: self.general((numbers, *others), attributes)  # noqa: E731
            return write_through(first, again)
        return super().run_call(operands, attributes, target)

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        return self.functional_op.decomposition(operands, attributes)

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        return self.functional_op.route_call(operands, attributes, called)


def inplace_of(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a function that writes the result of function into its first argument."""

    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found = offer(inplace, (self, *args), kwargs)
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
        if not isinstance(self, Tensor):
            fault = f"must be Tensor, not {type(self).__name__}"
            raise ArgumentError(f"{name}_(): argument 'input' (position 1) {fault}")
        target, operands = First(f"{name}_", self), (self, *args, *kwargs.values())
        target.accept(operands)
        result = function(target.before(operands)[0], *args, **kwargs)
        if result is NotImplemented:
            raise TypeError(f"{name}_(): unsupported arguments")
        return target.take(result, operands)

    return dressed_as_twin(inplace, name, function, TWIN_DOC)


def dressed_as_twin(
    inplace: Any, name: str, function: Callable[..., Any], doc: str
) -> Callable[..., Tensor]:
    """Return an in-place twin with the name and signature of function, which is an op's or a
    composite's, without its `out=`; told is its docstring, with `{}` for the name.
    """
    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = doc.format(name)
    op = OPS.get(name)
    if op is not None and op.__dict__.get("public") is function:
        declared = op.declared
    else:
        declared = getattr(function, "__wrapped__", function)
    inplace.__wrapped__ = declared
    if "out" in (declared.__kwdefaults__ or ()):
        signature = inspect.signature(declared)
        taken = [p for p in signature.parameters.values() if p.name != "out"]
        inplace.__signature__ = signature.replace(parameters=taken)
    return inplace  # type: ignore[no-any-return]
