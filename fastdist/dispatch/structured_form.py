"""The declaration of a structured op: a kernel, shapes, dtypes, derivatives. Nothing runs here."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Final, Self

from ..core.errors import DeclarationError
from .declaration import defaults_of, parameter_names, require_parameters, require_word
from .node_writer import Gradient, RecordedOp
from .op import P, R
from .route import Plan, Route

# How an op runs on a batch that lies along a new first axis: see Note [Batching rules].
BATCH_WORDS: Final = {
    "": "along the axes that its attributes name, if it reads one tensor",
    "same axes": "the same of several tensors, which have the same axes",
    "last axes": "on the last axes, whatever lies before them",
    "first axis": "the same along the first axis of its first tensor, in which the batch may lie",
}


class StructuredForm(RecordedOp[P, R]):
    """An op that names a kernel, defines its shapes and dtypes (`@op.plan`), and writes its
    derivatives with ops.

    `@op.vjp("input")` decorates the function of (g, ...) that gives the gradient of that input; its
    parameters name the values that it needs: out, `others` (results after the first), the inputs,
    the attributes, `<input>_layout`, `plan`. A value that no vjp names is not saved. `@op.jvp`
    takes `<input>_t` for the tangents (None where there is none); `linear=True` means that the op
    of the tangent is the jvp. Gradients and tangents are those of the first result; for an op with
    `several` they are of all results: derivatives then name `grads` (None for a result that got
    none) and `outs` instead of g and out, and the jvp returns a tuple. With `keeps_order` the
    result has the input's order in memory; all others are in C order.

    fresh=True promises that no vjp returns g, a view of it, or a saved value: gradients may then be
    taken over. `batch` defines how `vmap` runs it, as one of BATCH_WORDS; `@op.batches` registers a
    function for the other cases. `has_out` defines whether it takes an `out=`: by default ops that
    users call do, parts of other ops do not. computes_in_out=True means that it computes in the
    dtype of that where no dtype= is given. takes_complex=True means that the kernel takes complex
    numbers and the derivatives are right for them: so are the derivatives of moves, and those that
    conjugate. piecewise=True means that its slope is constant in steps: see piecewise.py.
    kernel_gradients=True uses the gradients that the CPU kernels of small tensors have for this
    kernel (`small_kernels.GRADIENTS`) instead of the vjps, where nothing records them.
    """

    __slots__ = (
        "_jvp", "_jvp_needs", "_plan", "computes_in_out", "fresh", "kernel", "kernel_gradients",
        "linear", "may_record", "piecewise", "several", "takes_complex", "vjps",
    )  # fmt: skip
    kind = "structured"
    keeps_order = False

    def __init__(
        self,
        function: Callable[P, R],
        kernel: str,
        *,
        linear: bool = False,
        has_out: bool | None = None,
        out: str = "same",
        memory: str = "anywhere",
        fresh: bool = False,
        known_as: str = "",
        node: str = "",
        several: bool = False,
        homes: str | None = None,
        batch: str = "",
        takes_complex: bool = False,
        piecewise: bool = False,
        computes_in_out: bool = False,
        kernel_gradients: bool = False,
    ) -> None:
        super().__init__(function, known_as, node, homes, out, memory)
        require_word(f"{self.name}: batch=", batch, BATCH_WORDS)
        self.batching = batch
        self.has_out = homes != "nowhere" if has_out is None else has_out
        if several and self.has_out:
            raise DeclarationError(f"{self.name}: an op with several results does not take out=")
        self.several = several
        self.fresh = fresh
        self.kernel = kernel
        self.kernel_gradients = kernel_gradients
        self.linear = linear
        self.takes_complex = takes_complex
        self.piecewise = piecewise
        self.computes_in_out = computes_in_out
        self.may_record = False  # until a vjp is registered
        self._plan: Callable[..., Plan] | None = None
        # Input -> its vjp, and the names of the vjp's arguments.
        self.vjps: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self._jvp: Callable[..., Any] | None = None
        self._jvp_needs: tuple[str, ...] = ()

    def plan(self, function: Callable[..., Plan]) -> Callable[..., Plan]:
        """Register the shape and dtype rule, a function of (inputs..., attributes...).

        Note    it is stored for all inputs of the same layouts, so it gets no values to read
        """
        given = parameter_names(function)
        if given != (*self.tensors, *self.attributes):
            raise DeclarationError(
                f"{self.name}: its plan takes ({', '.join(given)}), expected the op's own "
                f"parameters, tensors first: ({', '.join((*self.tensors, *self.attributes))})"
            )
        if self._plan is not None:
            raise DeclarationError(f"{self.name} has a plan already: leave one of them out")
        self._plan = function
        return function

    def vjp(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the gradient of one input, or a function that returns the gradients of several
        as a tuple: one pass may compute them all. That may take `wanted`, which has for each input
        of the op whether its gradient is needed.
        """
        for input in inputs:
            require_word(f"{self.name}: the input of a vjp", input, self.tensors)
        more = ("wanted",) if len(inputs) > 1 else ()
        of_results = ("grads", "outs") if self.several else ("g", "out", "others")
        known = (*of_results, "plan", *more, *self._names_of_inputs())

        def register_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
            require_parameters(f"{self.name}: the vjp by {', '.join(inputs)}", function, known)
            found = (function, parameter_names(function))
            self.vjps.update(dict.fromkeys(inputs, found))
            self.may_record = True
            return function

        return register_vjp

    def _names_of_inputs(self) -> tuple[str, ...]:
        layouts = [f"{name}_layout" for name in self.tensors]
        return (*self.tensors, *self.attributes, *layouts)

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the tangent of the result; for an op with several, of all as a tuple."""
        tangents = [f"{name}_t" for name in self.tensors]
        of_results = ("outs",) if self.several else ("out", "others")
        known = (*of_results, "plan", *tangents, *self._names_of_inputs())
        require_parameters(f"{self.name}: the jvp", function, known)
        self._jvp, self._jvp_needs = function, parameter_names(function)
        return function

    def in_steps(self) -> Self:
        """Return the same op except for its second gradients, which are zeros as for a piecewise
        op: for linear functions that PyTorch differentiates by an op which takes the input as well.
        """
        made = copy(self)
        made.piecewise, made.homes, made.fitted = True, frozenset(), set()
        for name in ("node_class", "public"):
            made.__dict__.pop(name, None)  # they are this op's
        made.call_later()
        return made

    @cached_property
    def gradients(self) -> tuple[Gradient | None, ...]:
        """How the gradients by the inputs are computed, as registered when first needed."""
        gradients: list[Gradient | None] = []
        for name in self.tensors:
            if name not in self.vjps:
                gradients.append(None)
                continue
            function, needs = self.vjps[name]
            together = [n for n in self.tensors if self.vjps.get(n, (None,))[0] is function]
            gradients.append(
                Gradient(
                    ("g", *[n for n in ("out", "others", *self.tensors, "wanted") if n in needs]),
                    needs,
                    frozenset(needs),
                    tuple(together) if len(together) > 1 else (),
                )
            )
        return tuple(gradients)

    def gradient_makers(self, route: Route) -> tuple[Callable[..., Any] | None, ...]:
        """Return the vjps by the inputs."""
        return tuple([self.vjps.get(name, (None,))[0] for name in self.tensors])

    @property
    def defaults(self) -> tuple[Any, ...] | None:
        """The attributes' defaults, None if one has none."""
        given = defaults_of(self.declared)
        if not given.keys() >= set(self.attributes):
            return None
        return tuple([given[name] for name in self.attributes])
