"""Pointwise ops: one scalar body, from which the kernels of all backends and autograd are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from ..core.dtypes import FLOAT8, DType, bool_, int64, uint8
from ..core.errors import DeclarationError, DTypeError, NoKernelError, ShapeError
from ..core.short_repr import short_repr
from ..graph.modes import tls
from ..graph.tensor_tangents import zeros_like
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
from .call import GeneralPath, require_no
from .declaration import (
    DTYPE_RULES,
    NUMBER_RULES,
    OutRule,
    defaults_of,
    recorded_as,
    require_numbers,
    require_parameters,
    require_texts,
    require_word,
    shared,
    words_of,
)
from .derive import REFUSED, ZERO, Derivatives, Form
from .node_writer import Gradient
from .op import OPS, Given, Op, P, R, common_device, declarator
from .pointwise_route import find_functions, keep_for_short_path, new_route
from .route import Route, layouts_of, order_of, run_silently
from .short_path import write_short_path
from .signature import ArgumentError, require_tensors
from .tangents import carry, combined

# Note [Numbers next to half types]
# Bodies of half types are computed in float32, and the numbers in them are float32 too, as in
# PyTorch: a loss may be scaled by 65536, which float16 cannot hold. Only numbers that are compared
# with elements, or that replace elements, are first rounded to the half type. `exact` names the
# parameters whose numbers are not rounded: by default the op's numeric arguments, and for a few ops
# also a number in place of a tensor. A 0-d tensor of a wider dtype is not rounded if `scaled_by`
# names its parameter. A 0-d tensor may be rounded where a number is not, so a call with a tensor
# and a call with a number must not share a Route: tensors made from numbers next to half types have
# a separate layout, Layout.of_number.

_ANY_NUMBER = (bool, int, float, complex)


class PointwiseOp(GeneralPath[P, R]):
    """An op that is one scalar body.

    `dtype` is one of DTYPE_RULES, and `numbers` is one of NUMBER_RULES. takes_complex=True means
    that the body is right for complex numbers too, and that each partial is holomorphic, or is the
    text "conj(g)" for the gradient g of the result. `held` names the attributes whose values the
    result's dtype must be able to hold, although the bodies of half types use these values in
    float32. `factors` names the attributes that scale an operand and do not affect the result's
    dtype. For `exact` and `scaled_by` see Note [Numbers next to half types]. piecewise=True means
    that the slope is piecewise constant: see Note [Functions in steps] in node_writer.py. `tails`
    are partials without cancellation: see Note [Tails] in derive.py.
    """

    __slots__ = (
        "dtype_rule", "exact", "factors", "form", "has_numbers_alone", "held", "may_record",
        "number_names", "partials", "piecewise", "refusals", "scaled_by", "tails",
        "takes_complex", "tensors_only", "text", "usual",
    )  # fmt: skip
    kind = "pointwise"
    homes = frozenset({"function", "method", "inplace"})
    fresh = True
    form: Form
    # A function that replaces the derivative with respect to the first operand. It gets the
    # derivative made from the partial, a function on Tensors, and returns another such function.
    derives: Callable[[Any], Any] | None = None
    # For an op whose tangent does not follow from the derivative: a function of the inputs, out and
    # the first operand's tangent, which returns the tangent of the result.
    pushes: Callable[..., Any] | None = None

    def __init__(
        self,
        function: Callable[P, R],
        body: str,
        partials: Sequence[str | None] = (),
        *,
        dtype: str = "same",
        known_as: str = "",
        node: str = "",
        numbers: str = "anywhere",
        takes_complex: bool = False,
        held: str = "",
        factors: str = "",
        exact: str | None = None,
        scaled_by: str = "",
        piecewise: bool = False,
        tails: Sequence[str] = (),
        out: str = "cast",
        homes: str | None = None,
    ) -> None:
        require_word(f"{function.__name__}: dtype=", dtype, DTYPE_RULES)
        require_word(f"{function.__name__}: numbers=", numbers, NUMBER_RULES)
        super().__init__(function, known_as, node, homes, out, memory="apart")
        if out == "cast" and len(self.tensors) == 1 and dtype in ("same", "number", "integral"):
            self.out = OutRule(self.name, "kept", "apart")
        self.number_names, self.piecewise = self.attributes, piecewise
        count = len(self.tensors)
        if not count:
            raise DeclarationError(
                f"{self.name}: a pointwise op takes a tensor, but no parameter is annotated Tensor"
            )
        leading = {"not first": 1, "last": count - 1, "nowhere": count}.get(numbers, 0)
        every = (*self.tensors, *self.attributes)
        exact = " ".join(self.attributes) if exact is None else exact
        require_texts(self.name, self.tensors, body, partials)
        require_numbers(
            self.name, self.attributes, function, " ".join(map(str, (body, *partials, *tails)))
        )
        self.text, self.tails = body, tuple(tails)
        self.partials = tuple(partials) or (None,) * count
        self.dtype_rule, self.takes_complex = dtype, takes_complex
        self.held = words_of(f"{self.name}: a name in held=", held, self.attributes)
        self.factors = words_of(f"{self.name}: a name in factors=", factors, self.attributes)
        self.exact = words_of(f"{self.name}: a name in exact=", exact, every)
        self.scaled_by = words_of(f"{self.name}: a name in scaled_by=", scaled_by, self.tensors)
        # The names of operands that must be tensors, and whether a call without tensors is allowed.
        self.tensors_only = shared(frozenset(self.tensors[:leading]))
        self.has_numbers_alone = numbers == "everywhere"
        self.refusals: list[Callable[..., str | None]] = []
        if tails and len(tails) != count:
            raise DeclarationError(f"{self.name}: tails= takes a partial for each tensor, or none")
        self.may_record = any(one is not None for one in self.partials)
        self.form = self.usual = Form(self, {})
        if self.attributes:
            given = defaults_of(self.declared)
            defaults = {name: given.get(name) for name in self.attributes}
            numeric = all(isinstance(value, int | float) for value in defaults.values())
            self.usual = Form(self, defaults) if numeric else None

    @property
    def node_name(self) -> str:
        if self.may_record and set(self.partials) == {REFUSED}:
            return "NotImplemented"  # PyTorch's name for such a Node; not Python's constant
        return super().node_name

    @cached_property
    def gradients(self) -> tuple[Gradient | None, ...]:
        form = self.form
        forms = [form] if self.usual is None else [form, self.usual]
        used = set().union(*(b.used for b in form.gradient_bodies if b is not None))
        used |= form.spare_names
        needs = [n if n in used else "None" for n in (*form.body_names, "out")]
        gradients: list[Gradient | None] = []
        for i, body in enumerate(form.gradient_bodies):
            if body is None:
                refused = Gradient(("g",), ("g",), frozenset())
                gradients.append(refused if form.refusing[i] else None)
                continue
            bodies = [one.gradient_bodies[i] for one in forms]
            may_be_g = any(one is not None and one.text == "g" for one in bodies)
            asks = body.used | (form.tail_bodies[i].used if form.tail_bodies else frozenset())
            raw = tuple([name for name in body.names if name in asks])
            gradients.append(Gradient(raw, (*needs, "g"), asks - {"g"}, may_be_g=may_be_g))
        return tuple(gradients)

    def gradient_makers(self, route: Route) -> Derivatives:
        assert route.form is not None
        return route.form.gradient_makers(route.layout.dtype)

    @property
    def looks_at_operands(self) -> bool:
        """Whether a check registered by `refusal` reads the operands, not only their dtypes."""
        return any(tell.__code__.co_argcount == 2 for tell in self.refusals)

    def refusal(self, tell: Callable[..., str | None]) -> Any:
        """Register `tell`, a check for cases that PyTorch refuses. It takes `dtypes`, the dtypes of
        the operands. It may also take `operands`, the operands followed by the numeric arguments.
        It returns the error's message, or None if it accepts the call.
        """
        require_parameters(f"{self.name}: a refusal", tell, ("dtypes", "operands"))
        self.refusals.append(tell)
        return tell

    def compute_dtype(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> DType:
        """Return the dtype in which the body is computed.

        Raises  RuntimeError for dtypes that the op does not support, and for non-integer numbers
                that scale integers
        """
        if not numbers:
            return self._meeting(operands)
        named = list(zip(self.attributes, numbers, strict=True))
        found = self._meeting([*operands, *[n for name, n in named if name not in self.factors]])
        for name, number in named if self.dtype_rule != "first" else ():
            is_flag = isinstance(number, bool) and name in self.factors & self.held
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
        if (len(operands) == 1 or self.dtype_rule == "first") and isinstance(operands[0], Tensor):
            found = operands[0]._layout.dtype
        else:
            found = self._promoted(operands)
        if self.refusals:
            # The checks get the operands' own dtypes, before numeric arguments promote them.
            self.require_meaning(operands)
        if not self.takes_complex:
            require_no(self.called, "is_complex", (found,))
        require_no(self.called, "is_float8", (found,))
        if self.dtype_rule == "floating" and not found.may_have_gradient:
            return get_default_dtype()
        if self.dtype_rule in ("number", "whole") and found is bool_:
            raise DTypeError(
                f"{self.called} of bool tensors has no meaning; use logical_* or bitwise_* ops, or "
                "cast with .to(fastdist.int64)"
            )
        if self.dtype_rule == "counted" and found is bool_:
            return int64
        if self.dtype_rule in ("integral", "whole") and found.may_have_gradient:
            raise NoKernelError(
                f"{self.called}: expected integer or bool tensors, got {found.name}"
            )
        return found

    def _promoted(self, operands: Sequence[Any]) -> DType:
        """Return the dtype to which operands promote. A condition only chooses among the others."""
        return result_dtype(operands[self.tensors[0] in CONDITIONS :])

    def require_meaning(self, operands: Sequence[Any]) -> None:
        """Raise RuntimeError for operands that a check registered by `refusal` rejects."""
        found = [o._layout.dtype if isinstance(o, Tensor) else dtype_of_number(o) for o in operands]
        dtypes = found[: len(self.tensors)]
        for tell in self.refusals:
            text = tell(dtypes, operands) if tell.__code__.co_argcount == 2 else tell(dtypes)
            if text is not None:
                refusal = NoKernelError if "not implemented for" in text else DTypeError
                raise refusal(f"{text} Got {', '.join(dtype.name for dtype in dtypes)}")

    def require_tensors(self, called: str, operands: Sequence[Any]) -> None:
        """Raise TypeError for a number where the op takes only a tensor; `called` is the name of
        the function that users called.

        Note    only the general path checks this: short paths send such calls to the general path
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

        Raises  RuntimeError if they do not broadcast, or if the operand `value` has axes
        """
        for which, operand in zip(self.tensors, operands, strict=True):
            if which == "value" and isinstance(operand, Tensor) and operand._layout.shape:
                raise ShapeError(
                    f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                    f"{len(operand._layout.shape)} dimension(s)."
                )
        return broadcast_shapes(name, [o._layout.shape for o in operands if isinstance(o, Tensor)])

    def accept_operands(self, operands: Given) -> Given:
        """Return operands as types that the op takes. If all are Python numbers, and the op allows
        that, return them as tensors.
        """
        found = super().accept_operands(operands)
        if self.has_numbers_alone and all(isinstance(o, _ANY_NUMBER) for o in found):
            return tuple([from_array(as_operand(o, dtype_of_number(o))) for o in found])
        return found

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return a function that computes the result with other ops; None if the op's body can
        compute it. The body cannot where it is wrong for complex numbers, where operands of half
        types are scaled by a wider 0-d tensor, and for some ops with float8 operands.
        """
        if FLOAT8:
            from .float8 import by_float32, computed_in_float32

            if any(isinstance(o, Tensor) and o._layout.dtype.is_float8 for o in operands):
                float8 = self._promoted(operands)
                if float8.is_float8 and computed_in_float32(self.name, float8, operands):
                    return partial(by_float32, self.name, float8)
        complex_decomposition = super().decomposition(operands, attributes)
        if complex_decomposition is not None or not self.scaled_by:
            return complex_decomposition
        named = zip(self.tensors, operands, strict=True)
        scaling = [o for name, o in named if name in self.scaled_by and isinstance(o, Tensor)]
        if not any(is_rounded_by_half(o) for o in scaling):
            return None
        compute = self.compute_dtype(operands, attributes)
        return partial(self._scaled, compute, attributes) if compute.is_half else None

    def _scaled(self, half: DType, attributes: Given, *operands: Any) -> Tensor:
        """Compute the op in float32, for half types scaled by a wider 0-d tensor; round once."""
        cast = OPS["cast"].public
        wide = [cast(o, half.computes_in) if isinstance(o, Tensor) else o for o in operands]
        found = cast(self.general(tuple(wide), attributes), half)
        return recorded_as(self.node_name, found, ())  # type: ignore[no-any-return]

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Return the Route of a call, and the call's operands and attributes as tensors. This also
        adds the short path to the public function of `called`.
        """
        form, numbers = self._form_of(self.fit_attributes(attributes) if attributes else ())
        given = (*with_numbers(operands), *numbers)
        if self.looks_at_operands:
            self.require_meaning(given)
        kinds = [one._layout if isinstance(one, Tensor) else dtype_of_number(one) for one in given]
        routes = next(kind for kind in kinds if isinstance(kind, Layout)).routes
        route: Route | None = routes.get((form, *kinds))
        if route is None:
            made = self._new_route(form, operands, numbers, called)
            route = routes.remember((form, *kinds), made)
        write_short_path(called, self)
        assert route.plan is not None and route.plan.compute is not None
        return route, self._as_tensors(form, (*operands, *numbers), route.plan.compute)

    def _form_of(self, attributes: Given) -> tuple[Form, Given]:
        """Return the form that computes a call, and the numbers that the form takes."""
        if attributes and self.usual is not None and self.is_usual(attributes):
            return self.usual, ()
        return self.form, attributes

    def _new_route(self, form: Form, operands: Given, numbers: Given, called: Op) -> Route:
        self.require_tensors(called.called, operands)
        tensors, operands = operands, with_numbers(operands)
        compute = self.compute_dtype(operands, numbers)
        device = common_device(self, operands)
        shape = self.shape_of(called.called, operands)
        casts: list[DType | None] = []
        for name, one in zip(form.body_names, (*operands, *numbers), strict=True):
            if not isinstance(one, Tensor):
                casts.append(None)
                continue
            wanted = compute
            if name in CONDITIONS:
                wanted = bool_
                # PyTorch takes uint8 for the condition of where, but not for masks.
                if one._layout.dtype is not bool_ and (name, one.dtype) != ("condition", uint8):
                    raise DTypeError(
                        f"{self.called}: expected {name} to be a boolean tensor, got "
                        f"{one.dtype.name}"
                    )
            casts.append(None if one._layout.dtype is wanted else wanted)
        tensors = self._as_tensors(form, (*tensors, *numbers), compute)
        order = order_of(layouts_of(operands), shape)
        dtype = bool_ if self.dtype_rule == "bool" else compute
        out_layout = Layout.of(dtype, device, shape, strides_of(shape, order))
        layouts = [one._layout for one in tensors[: len(operands)]]
        route = new_route(form, layouts, out_layout, compute)
        find_functions(route, order, casts, [one._array for one in tensors])
        replaced = [type(operand) for operand in operands if not isinstance(operand, Tensor)]
        # If tensors are cast, the short path would convert numbers to a dtype that is not the dtype
        # of this Route.
        if not replaced or (NUMBERS.issuperset(replaced) and not any(casts)):
            keep_for_short_path(route, is_cast=any(casts))
        return route

    def _as_tensors(self, form: Form, given: Given, compute: DType) -> Given:
        """Return operands and numbers as tensors; numbers get the dtype that the body takes."""
        found = list(given)
        for i, (name, number) in enumerate(zip(form.body_names, given, strict=True)):
            if isinstance(number, Tensor):
                continue
            # A number in place of an operand wraps around in an integer dtype; a numeric argument
            # does not.
            if name in self.held:
                require_held(number, compute)
            exact = self.dtype_rule == "first" or name in form.number_names
            # See Note [Numbers next to half types].
            dtype = compute.computes_in if name in self.exact else compute
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
        """Return the tangent of the result of a call that is not recorded. If no operand was
        broadcast or cast, the Route's functions for raw gradients only multiply by the elementwise
        derivative, so they are applied to the tangents.
        """
        layout = result._layout
        if not self.may_record or not layout.dtype.may_have_gradient:
            return None
        form, numbers = self._form_of(attributes)
        route = layout.uniform_routes.get(form)
        if (
            route is not None
            and route.layout is layout
            and not form.number_names
            and self.sums_raw_tangents
            and not layout.dtype.is_complex
            and all(one._layout is layout for one in primals)
            and all(one is None or _is_raw(one, layout) for one in tangents)
        ):
            return self.sum_of_raw_tangents(route, primals, tangents, result)
        derivatives, given = form.tangent_makers(layout.dtype), self._all_numbers(numbers)
        if self.pushes is not None:
            derivatives = (self.pushes, *derivatives[1:])
        return combined(derivatives, (*primals, *given, result), tangents, layout)

    def _all_numbers(self, numbers: Given) -> Given:
        """Return `numbers`, the numbers that a form takes. If it takes none, return a None for each
        attribute of the op instead.
        """
        return numbers or (None,) * len(self.attributes)

    @cached_property
    def sums_raw_tangents(self) -> bool:
        """Whether raw gradients and derivatives give tangents that are equal in every bit."""
        if self.tails or self.pushes is not None or self.derives is not None:
            return False
        return not any(self.form.refusing)

    def sum_of_raw_tangents(
        self, route: Route, primals: Sequence[Any], tangents: Sequence[Any], result: Tensor
    ) -> Tensor | None:
        """Return the sum, over the operands, of partial times tangent; the Route's functions for
        raw gradients compute the products.
        """
        total: Tensor | None = None
        known = {name: one._array for name, one in zip(self.tensors, primals, strict=True)}
        known["out"] = result._array
        assert route.gradients is not None
        for tangent, gradient, make in zip(tangents, self.gradients, route.gradients, strict=True):
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
        """Give the result its tangents: each is the sum, over the operands, of partial times
        tangent. For an in-place op, `kept` has the operands' values from before the overwriting.
        """
        if not self.may_record or not route.layout.dtype.may_have_gradient:
            return
        (result,), count = results, len(self.tensors)
        form = route.form
        assert form is not None
        numbers = self._all_numbers(tuple([number_of(number) for number in values[count:]]))
        # An overwritten input was kept only if the derivatives need it.
        is_whole = kept is None or form.derivatives_need_first(keeps_spare=route.keeps_spare)
        derivatives = form.tangent_makers(result._layout.dtype) if is_whole else form.derivatives
        if self.pushes is not None:
            derivatives = (self.pushes, *derivatives[1:])

        def tangents_at(inputs: Any, tangents: Any, outs: Any) -> Sequence[Tensor | None]:
            total = combined(derivatives, (*inputs, *numbers, *outs), tangents, result._layout)
            if total is None and tangents[0] is not None and kept is not None:
                total = zeros_like(result)
            return (total,)

        carry(results, values[:count], tangents_at, None if kept is None else kept[:count])


def _is_raw(tangent: Tensor, layout: Layout) -> bool:
    """Return whether a tangent has this layout, is not recorded, and has no tangents itself."""
    edge, extra = tangent._edge, tangent._extra
    return (
        tangent.__class__ is Tensor
        and tangent._layout is layout
        and (edge is None or not tls.grad)
        and (extra is None or (extra.tangents is None and extra.base is None))
    )


pointwise = declarator(PointwiseOp)

__all__ = ["REFUSED", "ZERO", "PointwiseOp", "pointwise"]
