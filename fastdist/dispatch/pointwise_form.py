"""The declaration of a pointwise op: one scalar body, its numbers, gradients. Nothing runs here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from ..core.dtypes import DType, float64
from ..core.errors import DeclarationError
from ..core.short_repr import short_repr
from ..language import scalar
from ..language.scalar import Body
from .declaration import OutRule, defaults_of, require_word, shared
from .derive import (
    REFUSED,
    adjoint_of,
    gradient_of,
    refusing,
    tensor_expression,
    with_defaults,
    with_spare,
)
from .node_writer import Gradient, OpNode, RecordedOp
from .op import P, R
from .route import Route

# Note [Numbers beside half types]
# Bodies of half types are computed in float32, and the numbers in them are float32 too, as in
# PyTorch: a loss may be scaled by 65536, which float16 does not hold. Only numbers that are
# compared with elements, or replace one, are rounded first. `exact` names the ones that are not
# rounded: by default the op's own numbers, and for a few ops a number in the place of a tensor. A
# tensor without axes of a wider dtype is kept if the op is `scaled_by` it. A tensor may be rounded
# where a number is not, so their calls must not share a Route: tensors made of numbers next to half
# types have their own layout, Layout.of_number.


# Note [Tails]
# The slope of sigmoid is out * (1 - out). Where out rounds to 1, from 37 on in float64, that is 0;
# the slope is exp(-x), and 1 - out has lost digits long before. A partial in `tails` computes the
# same from the inputs. It takes an exponential more, and sigmoid would have to keep its input as
# well as its result: float32 and shorter dtypes, whose results round to 1 from 17 on, use
# `partials`. In float64 `tails` replace them, and an in-place op keeps a copy of its input if it is
# recorded or has tangents: 8 bytes an element, and the time of a copy. An input that only `tails`
# need is kept without a promise: where it was overwritten since, `partials` are used. Recorded
# derivatives, and tangents, are computed by `tails` in all real dtypes if `partials` need the
# inputs as well.


# The rules for the dtype of a result.
DTYPE_RULES: Final = {
    "same": "operands meet, the result keeps it",
    "number": "as same, but not for bool",
    "floating": "integers and bool go to the default dtype",
    "bool": "operands meet, the result is bool",
    "integral": "as same, but not for floating",
    "whole": "as integral, but not for bool",
    "first": "the first operand's, whatever the others are",
    "counted": "as same, but bool goes to int64",
}


# The places in which a number may replace a tensor.
NUMBER_RULES: Final = {
    "anywhere": "in the place of any operand",
    "everywhere": "in the place of all of them, too, as in add(2, 3)",
    "not first": "in the place of the second, as in lt(x, 2)",
    "last": "in the place of the last, as in lerp(x, y, 0.5)",
    "nowhere": "in none, as in atan2(x, y)",
}


class PointwiseForm(RecordedOp[P, R]):
    """The declaration of an op that is one scalar body; it runs as a PointwiseOp.

    `dtype` is one of DTYPE_RULES, `numbers` one of NUMBER_RULES. takes_complex=True means that the
    body is right for complex numbers too, and that its partials are holomorphic, or conj. `held`
    names the attributes that the dtype must be able to hold, although for half types they are
    computed with in float32; `factors` those that scale an operand and do not affect the result's
    dtype; `exact` and `scaled_by` are about half types, see Note [Numbers beside half types].
    piecewise=True means that its slope is constant in steps: see piecewise.py. `tails` are partials
    without a difference that cancels: see Note [Tails]. Texts are read when they are first needed:
    a program needs few of them.
    """

    __slots__ = (
        "_defaults", "_text", "_text_names", "body_names", "derives", "dtype", "exact_names",
        "factors", "held_names", "may_have_numbers_alone", "may_record", "number_names",
        "partials", "piecewise", "refusals", "scaled_by", "tails", "takes_complex", "tensors_only",
        "usual", "whole",
    )  # fmt: skip
    kind = "pointwise"
    homes = frozenset({"function", "method", "inplace"})
    fresh = True
    # Makes the tangent that follows from the tangent of the first operand, where the derivative by
    # it does not: a function of the inputs, out and the tangent.
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
        super().__init__(function, known_as, node, homes, out, memory="apart")
        require_word(f"{self.name}: numbers=", numbers, NUMBER_RULES)
        count = len(self.tensors)
        leading = {"not first": 1, "last": count - 1, "nowhere": count}.get(numbers, 0)
        self.may_have_numbers_alone = numbers == "everywhere"
        # The operands that no number may replace: no short path makes tensors of them.
        self.tensors_only = shared(frozenset(self.tensors[:leading]))
        self.number_names = self.attributes
        self.body_names = (*self.tensors, *self.number_names)
        self.held_names = self._named("held", held, self.number_names)
        self.factors = self._named("factors", factors, self.number_names)
        # See Note [Numbers beside half types].
        exact = " ".join(self.number_names) if exact is None else exact
        self.exact_names = self._named("exact", exact, self.body_names)
        self.scaled_by = self._named("scaled_by", scaled_by, self.tensors)
        self._text, self._text_names = _require_text(self.name, body), self.body_names
        self._defaults: dict[str, Any] = {}
        require_word(f"{self.name}: dtype=", dtype, DTYPE_RULES)
        self.dtype = dtype
        if out == "cast" and len(self.tensors) == 1 and dtype in ("same", "number", "integral"):
            self.out = OutRule(self.name, "kept", "apart")
        self.partials = _partials_for(self.tensors, partials, self.name)
        self.tails = tuple(tails)
        if self.tails and len(self.tails) != len(self.tensors):
            raise DeclarationError(f"{self.name}: tails= takes a partial for each tensor, or none")
        # Replaces the derivative by the first operand, on Tensors; it takes the derivative that the
        # partial gives.
        self.derives: Callable[[Any], Any] | None = None
        self.may_record = any(p is not None for p in self.partials)
        self.takes_complex = takes_complex
        self.piecewise = piecewise
        # A list, which the op with its numbers at their defaults shares.
        self.refusals: list[Callable[..., str | None]] = []
        # The op itself, also for one with its numbers at their defaults: both have its Nodes.
        self.whole = self
        self.usual: PointwiseForm | None = self._with_defaults()

    def _named(self, word: str, text: str, known: Sequence[str]) -> frozenset[str]:
        for name in text.split():
            require_word(f"{self.name}: a name in {word}=", name, known)
        return shared(frozenset(text.split()))

    def _with_defaults(self) -> PointwiseForm | None:
        """Return this op with its numbers at their defaults as parts of the body: the short path of
        most calls. None where a number has no default.
        """
        if not self.attributes:
            return self
        given = defaults_of(self.declared)
        defaults = {name: given.get(name) for name in self.attributes}
        if not all(isinstance(value, int | float) for value in defaults.values()):
            return None
        usual = copy.copy(self)
        usual.attributes = usual.number_names = ()
        usual.body_names = self.tensors
        usual._defaults = defaults
        usual.usual = usual
        return usual

    @property
    def looks_at_operands(self) -> bool:
        """Whether a refusal depends on more than dtypes."""
        return any(tell.__code__.co_argcount == 2 for tell in self.refusals)

    def is_usual(self, numbers: Sequence[Any]) -> bool:
        """Return whether numbers are the op's defaults: then `usual` is its shorter form."""
        if self.usual is None:
            return False
        usual = self.usual._defaults.values()
        return all(one is default for one, default in zip(numbers, usual, strict=True))

    def _read(self, text: str, *more: str) -> Body:
        """Return the body of a text of the declaration over the op's names and more.

        Raises  ScalarSyntaxError naming the word and its column
        """
        body = scalar.parse(text, (*self._text_names, *more))
        return with_defaults(body, self._defaults) if self._defaults else body

    @cached_property
    def body(self) -> Body:
        """The body that the op computes, over its tensors and numbers."""
        return self._read(self._text)

    @cached_property
    def run_body(self) -> Body:
        """The body over the inputs that it uses, which a kernel takes."""
        return self.body.in_used_order()

    @cached_property
    def gradient_bodies(self) -> tuple[Body | None, ...]:
        """Per input, the gradient in terms of the op's names, out and g; None where it has none."""
        read = [None if p in (None, REFUSED) else self._read(p, "out", "g") for p in self.partials]
        return tuple([None if body is None else gradient_of(body) for body in read])

    @cached_property
    def tail_bodies(self) -> tuple[Body, ...]:
        """Per input, the gradient that keeps its tail; empty where there is no such text."""
        return tuple([gradient_of(self._read(text, "out", "g")) for text in self.tails])

    @cached_property
    def spare_names(self) -> frozenset[str]:
        """The names that only the gradients by `tails` need."""
        asked = {name for body in self.gradient_bodies if body is not None for name in body.used}
        return frozenset().union(*(body.used for body in self.tail_bodies)) - asked

    def keeps_tails(self, dtype: DType) -> bool:
        """Return whether gradients of results of a dtype are computed by `tails`."""
        return dtype is float64 and bool(self.tails)

    @cached_property
    def adjoint_bodies(self) -> tuple[Body | None, ...]:
        """The gradient bodies for complex numbers."""
        return tuple([None if b is None else adjoint_of(b) for b in self.gradient_bodies])

    @cached_property
    def gradient_needs_first(self) -> bool:
        """Whether a gradient needs the first operand, whose old value an in-place op overwrites."""
        return any(b is not None and self.tensors[0] in b.used for b in self.gradient_bodies)

    def derivatives_need_first(self, route: Route) -> bool:
        """Return whether derivatives of results of a Route need the first operand: see
        gradient_needs_first, and Note [Tails].
        """
        is_spare = route.keeps_spare and self.tensors[0] in self.spare_names
        return is_spare or self.gradient_needs_first

    @cached_property
    def derivatives(self) -> tuple[Callable[..., Any] | None, ...]:
        """One function of (inputs, the whole op's numbers, out, g) per input; with a tangent as g
        they are the jvp.
        """
        return self._expressions(self.gradient_bodies)

    @cached_property
    def adjoints(self) -> tuple[Any, ...]:
        """The derivatives for complex numbers, where g is a gradient."""
        return self._expressions(self.adjoint_bodies)

    def gradient_makers(self, route: Route) -> tuple[Callable[..., Any] | None, ...]:
        """Return the derivatives, for complex numbers their adjoints."""
        dtype = route.layout.dtype
        return self.adjoints if dtype.is_complex else self.tangent_makers(dtype)

    def tangent_makers(self, dtype: DType) -> tuple[Callable[..., Any] | None, ...]:
        """Return the derivatives of results of a dtype."""
        with_tails = not dtype.is_complex if not self.spare_names else dtype is float64
        return self.derivatives_with_tails if self.tails and with_tails else self.derivatives

    @cached_property
    def derivatives_with_tails(self) -> tuple[Callable[..., Any] | None, ...]:
        """The derivatives by `tails`, or by `partials` where a spare input is None."""
        spare, names = self.spare_names, (*self.whole.body_names, "out", "g")
        made = self._expressions(self.tail_bodies)
        if not spare:
            return made
        return with_spare(made, self.derivatives, tuple([n in spare for n in names]))

    def _expressions(self, bodies: Sequence[Body | None]) -> tuple[Any, ...]:
        names = (*self.whole.body_names, "out", "g")
        pairs = zip(self.refusing, bodies, strict=True)
        made = [r or (b and tensor_expression(Body.of(b.tree, names))) for r, b in pairs]
        derives = self.whole.derives
        if derives is not None and bodies[0] is not None:
            made[0] = derives(made[0])
        return tuple(made)

    @cached_property
    def refusing(self) -> tuple[Callable[..., Any] | None, ...]:
        """For each input the function that refuses its gradient; None where there is a gradient, or
        nothing to refuse.
        """
        refused = [partial == REFUSED for partial in self.partials]
        alike = len(set(refused)) == 1
        return tuple(
            [
                refusing(self.name, "" if alike else name) if is_refused else None
                for name, is_refused in zip(self.tensors, refused, strict=True)
            ]
        )

    @property
    def node_name(self) -> str:
        """The name that `grad_fn` shows."""
        if self.may_record and set(self.partials) == {REFUSED}:
            return "NotImplemented"  # PyTorch's name, which is not mistaken for Python's
        return super().node_name

    def gradient_inputs(self, i: int) -> tuple[str, ...]:
        """Return the names that the gradient by input i uses, in the order of its kernel."""
        body = self.gradient_bodies[i]
        if body is None:
            return ("g",) if self.refusing[i] else ()
        if not self.tails:
            return body.in_used_order().names
        used = body.used | self.tail_bodies[i].used
        return tuple([name for name in body.names if name in used])

    @cached_property
    def gradients(self) -> tuple[Gradient | None, ...]:
        """How the gradients by the inputs are computed, and from which values; None for an input
        without one.
        """
        forms: list[Any] = [self] if self.usual is None else [self, self.usual]
        used = set().union(*(b.used for b in self.gradient_bodies if b is not None))
        used |= self.spare_names
        needs = [n if n in used else "None" for n in (*self.body_names, "out")]
        gradients: list[Gradient | None] = []
        for i, body in enumerate(self.gradient_bodies):
            if body is None:
                refused = Gradient(("g",), ("g",), frozenset())
                gradients.append(refused if self.refusing[i] else None)
                continue
            bodies = [form.gradient_bodies[i] for form in forms]
            may_be_g = any(one is not None and one.text == "g" for one in bodies)
            asks = frozenset(body.used | (self.tail_bodies[i].used if self.tails else set())) - {
                "g"
            }
            gradients.append(Gradient(self.gradient_inputs(i), (*needs, "g"), asks, (), may_be_g))
        return tuple(gradients)

    @cached_property
    def node_class(self) -> type[OpNode]:
        """The Node class, which the op with its numbers at their defaults shares."""
        return super().node_class if self.whole is self else self.whole.node_class


def _require_text(name: str, body: Any) -> str:
    if not isinstance(body, str):
        raise DeclarationError(
            f"{name}: the body is {short_repr(body)}, expected a text in the scalar language"
        )
    return body


def _partials_for(
    tensors: Sequence[str], partials: Sequence[str | None], name: str
) -> tuple[str | None, ...]:
    """Return a partial for each tensor, None for all of them where none is given."""
    if isinstance(partials, str):
        raise DeclarationError(
            f"{name}: partials is the text {partials!r}; expected a list with a text for each "
            "tensor"
        )
    for one in partials:
        if one is not None and not isinstance(one, str):
            raise DeclarationError(
                f"{name}: a partial is {short_repr(one)}, expected a text, or None where there is "
                "no gradient"
            )
    if partials and len(partials) != len(tensors):
        raise DeclarationError(
            f"{name}: {len(partials)} partials were given for the tensors {', '.join(tensors)}; "
            "expected one for each, None where there is no gradient"
        )
    return tuple(partials) if partials else (None,) * len(tensors)
