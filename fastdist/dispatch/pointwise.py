"""Pointwise ops: one scalar body, read by every backend and by autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.dtypes import FLOAT8, WORDS, DType, bool_, int64
from ..core.errors import DTypeError, NoKernelError, ShapeError
from ..core.short_repr import short_repr
from ..graph.modes import tls
from ..language.scalar import CONDITIONS
from ..tensor.broadcast import broadcast_shapes
from ..tensor.constants import (
    NUMBERS,
    as_operand,
    held,
    is_rounded_by_half,
    number_of,
    require_held,
    tensor_of_number,
    with_numbers,
)
from ..tensor.layout import Layout, Shape, strides_of
from ..tensor.promotion import dtype_of_number, get_default_dtype, result_dtype
from ..tensor.tensor import Tensor, from_array, wrap
from .argument_kinds import ArgumentError, require_tensors
from .declaration import require_parameters
from .derive import REFUSED, ZERO
from .general_path import GeneralPath
from .op import OPS, Given, Op, P, R, common_device, declarator
from .pointwise_form import PointwiseForm
from .pointwise_route import find_functions, keep_for_short_path, new_route
from .pytorch_names import recorded_as
from .route import Route, layouts_of, order_of, run_silently
from .short_path import write_short_path
from .tangents import carry, combined, zeros_like

_ANY_NUMBER = (bool, int, float, complex)


class PointwiseOp(PointwiseForm[P, R], GeneralPath[P, R]):
    """A pointwise op as it runs."""

    def refusal(self, tell: Callable[..., str | None]) -> Any:
        """Register the cases that PyTorch refuses: a function of `dtypes`, the operands', and
        `operands`, and the op's numbers after them if it names them, that returns the message, or
        None.
        """
        require_parameters(f"{self.name}: a refusal", tell, ("dtypes", "operands"))
        self.refusals.append(tell)
        return tell

    def compute_dtype(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> DType:
        """Return the dtype in which the body is computed.

        Raises  RuntimeError for dtypes that the op has no meaning for, and fractions that scale
                integers
        """
        if not numbers:
            return self._meeting(operands)
        named = list(zip(self.number_names, numbers, strict=True))
        found = self._meeting([*operands, *[n for name, n in named if name not in self.factors]])
        for name, number in named if self.dtype != "first" else ():
            is_flag = isinstance(number, bool) and name in self.factors & self.held_names
            if is_flag and found is not bool_:
                raise DTypeError(
                    f"Boolean alpha only supported for Boolean results.: {self.called} got "
                    f"alpha={short_repr(number)} for {found.name}"
                )
            if dtype_of_number(number).may_have_gradient and not found.may_have_gradient:
                raise DTypeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    f"number: {self.called} got {name}={short_repr(number)} for {found.name}"
                )
        return found

    def _meeting(self, operands: Sequence[Any]) -> DType:
        if (len(operands) == 1 or self.dtype == "first") and isinstance(operands[0], Tensor):
            found = operands[0]._layout.dtype
        else:
            # Operands that only choose among the others do not take part in the promotion.
            found = result_dtype(operands[self.tensors[0] in CONDITIONS :])
        if self.refusals:
            # Numbers that say how to compute do not promote the operands.
            self.require_meaning(operands)
        if found.is_complex and not self.takes_complex:
            raise NoKernelError(
                f'"{self.called}" not implemented for {WORDS[found]!r}: take its parts'
            )
        if found.is_float8:
            from .float8 import no_float8_kernel

            raise no_float8_kernel(self.called, found)
        if self.dtype == "floating" and not found.may_have_gradient:
            return get_default_dtype()
        if self.dtype in ("number", "whole") and found is bool_:
            raise DTypeError(
                f"{self.called} of bool tensors has no meaning; use logical_* or bitwise_* ops, or "
                "cast with .to(fastdist.int64)"
            )
        if self.dtype == "counted" and found is bool_:
            return int64
        if self.dtype in ("integral", "whole") and found.may_have_gradient:
            raise NoKernelError(
                f"{self.called}: expected integer or bool tensors, got {found.name}"
            )
        return found

    def require_meaning(self, operands: Sequence[Any]) -> None:
        """Raise RuntimeError for operands that a refusal of the op covers."""
        found = [o._layout.dtype if isinstance(o, Tensor) else dtype_of_number(o) for o in operands]
        dtypes = found[: len(self.tensors)]
        for tell in self.refusals:
            text = tell(dtypes, operands) if tell.__code__.co_argcount == 2 else tell(dtypes)
            if text is not None:
                refusal = NoKernelError if "not implemented for" in text else DTypeError
                raise refusal(f"{text} Got {', '.join(dtype.name for dtype in dtypes)}")

    def require_tensors(self, called: str, operands: Sequence[Any]) -> None:
        """Raise TypeError for a number in a place that takes only a tensor; called is the function
        that users called.

        Note    checked on the general path alone, to which the short ones leave such numbers
        """
        if len(self.tensors_only) == len(self.tensors):
            require_tensors(called, self.parameters, self.tensors, operands)
        for name, operand in zip(self.tensors, operands, strict=True):
            if name in self.tensors_only and not isinstance(operand, Tensor):
                kinds = ", ".join([type(one).__name__ for one in operands])
                raise ArgumentError(
                    f"{called}() received an invalid combination of arguments - got ({kinds}); "
                    f"make one of {short_repr(operand)} with tensor()"
                )

    def shape_of(self, name: str, operands: Sequence[Any]) -> Shape:
        """Return the shape to which the operands broadcast; name is the op's name in errors.

        Raises  RuntimeError if they do not, or for a `value` with axes
        """
        for which, operand in zip(self.tensors, operands, strict=True):
            if which == "value" and isinstance(operand, Tensor) and operand._layout.shape:
                raise ShapeError(
                    f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                    f"{len(operand._layout.shape)} dimension(s)."
                )
        return broadcast_shapes(name, [o._layout.shape for o in operands if isinstance(o, Tensor)])

    def accept_operands(self, operands: Given) -> Given:
        """Return operands as the op takes them; tensors if all are Python numbers."""
        found = super().accept_operands(operands)
        if self.may_have_numbers_alone and all(isinstance(o, _ANY_NUMBER) for o in found):
            return tuple([from_array(as_operand(o, dtype_of_number(o))) for o in found])
        return found

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return a function that computes the result with other ops: where the body is wrong for
        complex numbers, and where half operands meet a wider tensor without axes that scales them;
        or None.
        """
        if FLOAT8:
            from .float8 import by_float32, computed_in_float32

            float8 = self._float8_of(operands)
            if float8 is not None and computed_in_float32(self.name, float8, operands):
                return partial(by_float32, self.name, float8)
        complex_decomposition = super().decomposition(operands, attributes)
        if complex_decomposition is not None or not self.scaled_by:
            return complex_decomposition
        named = zip(self.tensors, operands, strict=True)
        scaling = [o for name, o in named if name in self.scaled_by and isinstance(o, Tensor)]
        if not any(is_rounded_by_half(o) for o in scaling):
            return None
        compute = self.compute_dtype(operands, attributes)
        return partial(self._scaled, compute) if compute.is_half else None

    def _float8_of(self, operands: Given) -> DType | None:
        """Return the float8 type in which operands meet, None for any other dtype."""
        if not any(isinstance(o, Tensor) and o._layout.dtype.is_float8 for o in operands):
            return None
        found = result_dtype(operands[self.tensors[0] in CONDITIONS :])
        return found if found.is_float8 else None

    def _scaled(self, half: DType, *operands: Any) -> Tensor:
        """Compute half operands with such a factor in float32, and round once."""
        cast = OPS["cast"].public
        wide = [cast(o, half.computes_in) if isinstance(o, Tensor) else o for o in operands]
        found = cast(self.general(tuple(wide), ()), half)
        return recorded_as(self.node_name, found, ())  # type: ignore[no-any-return]

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Return how to run, and operands and attributes as tensors; the public function of
        `called` has its short path from now on.
        """
        if attributes:
            attributes = self.fit_attributes(attributes)
            if self.is_usual(attributes):
                assert isinstance(self.usual, PointwiseOp)
                return self.usual.route_call(operands, (), called)
        values = (*operands, *attributes)
        given = (*with_numbers(operands), *attributes)
        if self.looks_at_operands:
            self.require_meaning(given)
        kinds = [one._layout if isinstance(one, Tensor) else dtype_of_number(one) for one in given]
        routes = next(kind for kind in kinds if isinstance(kind, Layout)).routes
        route: Route | None = routes.get((self, *kinds))
        if route is None:
            route = routes.remember((self, *kinds), self._new_route(operands, attributes, called))
        write_short_path(called, self.whole)
        assert route.plan is not None and route.plan.compute is not None
        return route, self._as_tensors(values, route.plan.compute)

    def _new_route(self, operands: Given, attributes: Given, called: Op) -> Route:
        self.require_tensors(called.called, operands)
        tensors, operands = operands, with_numbers(operands)
        compute = self.compute_dtype(operands, attributes)
        device = common_device(self, operands)
        shape = self.shape_of(called.called, operands)
        given = (*operands, *attributes)
        casts: list[DType | None] = []
        for name, one in zip(self.body_names, given, strict=True):
            if name in CONDITIONS and isinstance(one, Tensor) and one._layout.dtype is not bool_:
                raise DTypeError(
                    f"{self.called}: expected {name} to be a boolean tensor, got {one.dtype.name}"
                )
            is_right = name in CONDITIONS or not isinstance(one, Tensor)
            casts.append(None if is_right or one._layout.dtype is compute else compute)
        tensors = self._as_tensors((*tensors, *attributes), compute)
        order = order_of(layouts_of(operands), shape)
        dtype = bool_ if self.dtype == "bool" else compute
        out_layout = Layout.of(dtype, device, shape, strides_of(shape, order))
        route = new_route(
            self, [one._layout for one in tensors[: len(operands)]], out_layout, compute
        )
        find_functions(self, route, order, casts, [one._array for one in tensors])
        numbers = [type(operand) for operand in operands if not isinstance(operand, Tensor)]
        # With tensors that are cast, the short path makes other tensors of numbers.
        if not numbers or (NUMBERS.issuperset(numbers) and not any(casts)):
            keep_for_short_path(self, route, is_cast=any(casts))
        return route

    def _as_tensors(self, given: Given, compute: DType) -> Given:
        """Return operands and numbers as tensors, numbers in the dtype that the body takes."""
        found = list(given)
        for i, (name, number) in enumerate(zip(self.body_names, given, strict=True)):
            if isinstance(number, Tensor):
                continue
            # A number among the operands wraps around, one that says how to compute does not.
            if name in self.held_names:
                require_held(number, compute)
            exact = self.dtype == "first" or name in self.number_names
            # See Note [Numbers beside half types].
            dtype = compute.computes_in if name in self.exact_names else compute
            array = (held if exact else as_operand)(number, dtype)
            found[i] = tensor_of_number(number, array, compute)
        return tuple(found)

    def tangent_of_call(
        self,
        plain: Callable[..., Any],
        primals: Sequence[Any],
        attributes: Given,
        tangents: Sequence[Any],
        result: Tensor,
    ) -> Tensor | None:
        """Return the tangent of the result of a call that is not recorded: by the raw gradients of
        its Route, which are those by each element, where no operand is broadcast or cast.
        """
        layout = result._layout
        if not self.may_record or not layout.dtype.may_have_gradient:
            return None
        of = self.usual if attributes and self.is_usual(attributes) else self
        assert isinstance(of, PointwiseOp)
        route = layout.uniform_routes.get(of)
        if (
            route is not None
            and route.layout is layout
            and not of.number_names
            and of.sums_raw_tangents
            and not layout.dtype.is_complex
            and all(one._layout is layout for one in primals)
            and all(one is None or _is_raw(one, layout) for one in tangents)
        ):
            return of.sum_of_raw_tangents(route, primals, tangents, result)
        values, derivatives = tuple(primals), of.tangent_makers(layout.dtype)
        if self.whole.pushes is not None:
            derivatives = (self.whole.pushes, *derivatives[1:])
        numbers = attributes if of.number_names else (None,) * len(self.whole.number_names)
        return combined(derivatives, (*values, *numbers, result), tangents, layout)

    @functools.cached_property
    def sums_raw_tangents(self) -> bool:
        """Whether raw gradients are what the derivatives say, to the last digit."""
        if self.tails or self.whole.pushes is not None or self.whole.derives is not None:
            return False
        return not any(self.refusing)

    def sum_of_raw_tangents(
        self, route: Route, primals: Sequence[Any], tangents: Sequence[Any], result: Tensor
    ) -> Tensor | None:
        """Return the sum of the products of raw gradients and tangents."""
        total: Tensor | None = None
        known = {name: one._array for name, one in zip(self.tensors, primals, strict=True)}
        known["out"] = result._array
        assert route.gradients is not None
        for tangent, gradient, make in zip(
            tangents, self.whole.gradients, route.gradients, strict=True
        ):
            if tangent is None or gradient is None:
                continue
            part = tangent
            if make is not None:
                known["g"] = tangent._array
                names = gradient.raw_args
                part = wrap(run_silently(make, [known.get(name) for name in names]), route.layout)
            total = part if total is None else OPS["add"].public(total, part)
        return total

    def carry_tangents(
        self, results: Sequence[Tensor], values: Given, route: Route, kept: Given | None = None
    ) -> None:
        """Give the result its tangents: each is the sum of partial times tangent; `kept` are the
        values that an in-place op has overwritten.
        """
        if not self.may_record or not route.layout.dtype.may_have_gradient:
            return
        (result,), count = results, len(self.tensors)
        # Numbers at their defaults belong to another body.
        of = self if len(values) == len(self.body_names) else self.usual
        assert of is not None
        numbers = [number_of(number) for number in values[count:]]
        numbers += [None] * (len(self.whole.number_names) - len(numbers))
        # The inputs that an in-place op has overwritten exist only if derivatives need them.
        is_whole = kept is None or of.derivatives_need_first(route)
        derivatives = of.tangent_makers(result._layout.dtype) if is_whole else of.derivatives
        if self.whole.pushes is not None:
            derivatives = (self.whole.pushes, *derivatives[1:])

        def tangents_at(inputs: Any, tangents: Any, outs: Any) -> Sequence[Tensor | None]:
            total = combined(derivatives, (*inputs, *numbers, *outs), tangents, result._layout)
            if total is None and tangents[0] is not None and kept is not None:
                total = zeros_like(result)
            return (total,)

        carry(results, values[:count], tangents_at, None if kept is None else kept[:count])


def _is_raw(tangent: Tensor, layout: Layout) -> bool:
    """Return whether a tangent is no more than numbers in this layout."""
    edge, extra = tangent._edge, tangent._extra
    return (
        tangent.__class__ is Tensor
        and tangent._layout is layout
        and (edge is None or not tls.grad)
        and (extra is None or (extra.tangents is None and extra.base is None))
    )


pointwise = declarator(PointwiseOp)

__all__ = ["REFUSED", "ZERO", "PointwiseOp", "pointwise"]
