"""Generates the functions that run when users call an op: the five steps for plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..core.device import CPU
from ..core.errors import raise_out_of_memory
from ..core.folded_frames import fold
from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number
from ..graph.views import see
from ..instrumentation.time_ranges import clock, own_thread, time_ranges
from ..kernels.cpu.silence import define_silent
from ..language.scalar import CONDITIONS
from ..tensor.constants import NUMBERS, constant
from ..tensor.storage import Storage, storage_of
from ..tensor.tensor import Tensor, empty_shell
from ..tensor.writable import may_overlap
from .call import special_call
from .derive import Form
from .node_writer import NodeWriter, RecordedOp
from .op import PLAIN, Op, folding, replace_code
from .pointwise_route import find_route
from .route import NO_ROUTE, find_event

# Note [The short path]
# The short path serves operands that need no check: plain Tensors, or numbers next to them, while
# no tracer is open and no operand has a tangent. One look-up in `modes.plain` for each operand
# checks all of this. Another look-up finds the Route. Its key is the op if all operands have one
# layout and all attributes have their defaults, else the op, the layouts and the attributes. The
# Route has the function that makes the result from raw arrays, the layout of the result, and the
# functions that make the gradients. The parts that differ from op to op (the number of operands,
# the values that a Node saves) are generated as source: loops over names and helper functions would
# take longer than the op. Unusual calls, and calls without a Route yet, go to the general path.
#
# A call on 8x8 float32, in ns without and with grad (AMD EPYC, Zen 5; `python -m bench ops`):
#   the general path             13000 | 15000
#   the short path of x * y        540 |   710, one Python function
#   - if the Route is found by a tuple of op and layouts: 75 more
#   - if a Node's `save` is called instead of inlined: 60 more with grad
#   x.sum() 750 | 890, x @ y 650 | 800, x.exp() 470 | 980, where(mask, x, y) 1650 | 1890
#
# Operands that need a cast are cast by the Route's function (`casting` in route.py): float32 * bool
# takes 2500 | 2800, the general path 14200 | 18800 (Zen 5).
#
# Ops that write into existing memory, `x.add_(y)` and `add(x, y, out=z)`, use the same code with a
# `target`, if nothing is recorded: the Route's `change` or `write` takes the target's array as the
# last argument. x.add_(y) takes 890, add(x, y, out=z) 1040, the general path of both 10700 (Zen 4).
#
# Calls on a device use the same code: the Route's function comes from the backend's `making`. On
# CUDA it holds the compiled kernel, its grid and its extents, see Note [Prepared launches] in
# kernels/cuda/prepared.py. With kernels that cost nothing, x + y takes 2000 | 2500 of Python time,
# the general path 9500 | 13600 (`python -m bench ops --device shim`).
#
# While profiles that need only names and times are the only special mode (`modes.timed`), the short
# path calls a second version of its code, which reads the clock before and after the call. That
# version is compiled at its first call, so ops cost nothing more while no profile records. If that
# version calls the general path, the general path reports the call.
#
# A view uses the same code, except for the line that makes the result.
# x.view(64) takes 1260 | 1420. With separate code it took 1290 | 1450 (Zen 5).
#
# Note [The last call of an op]
# An op with attributes also stores its last call: the layouts, the attributes and the Route. If the
# next call has the same objects, comparing them takes 30 ns and replaces the look-up. A look-up
# takes 120 ns, half of it to hash the key (Zen 3). The same object always gives the same key,
# because all objects in keys are immutable. Threads read and replace the tuple as a whole.
#
# Operators are separate functions, made at their first use, so that Python calls them directly. A
# public function, which op.py generates without a short path, gets new code with the short path
# when the op's first Route is stored. All existing references to the function then run this code.
_CALLED: Final[Sequence[Any]] = (
    *(Storage, Tensor, constant, find_event, find_route, fold, may_overlap),
    *(raise_out_of_memory, see, storage_of),
)
# The global names that the generated code uses.
NAMES: Final[dict[str, Any]] = (
    {f"_{one.__name__}": one for one in _CALLED}
    | {"_CPU": CPU, "_NO_ROUTE": NO_ROUTE, "_NUMBERS": NUMBERS, "_PLAIN": PLAIN}
    | {"_clock": clock, "_modes": modes, "_report": time_ranges.add_op, "_tls": tls}
    | {"_next": next_sequence_number, "_shell": empty_shell}
    | {"_ranges": time_ranges, "_thread": own_thread}
)

# The test whether grad mode is off: 6 ns if it is on in all threads; `tls.grad` alone takes 40 ns.
_OFF: Final = "(_modes.grad_off and not _tls.grad)"


class ShortPath:
    """The source text of an op's short path; each branch ends with a return.

    `form` is the form of a pointwise op. `general` is the statement that calls the general path.
    `target` names the tensor to overwrite with the result: the first operand or `out`. It is empty
    for a new result. `more` is the number of results after the first. `special` names the arguments
    to pass on if an interpreter may see the call, or the call has tangents. It is empty if another
    function has excluded such calls. A `timed` path gets checked operands, and reports the call.
    """

    def __init__(
        self,
        op: RecordedOp,
        form: Form | None,
        general: str,
        target: str = "",
        more: int = 0,
        *,
        special: Sequence[str] = (),
        timed: bool = False,
    ) -> None:
        self.op, self.form, self.general, self.target = op, form, general, target
        self.special, self.timed = _call_special(general, special, target), timed
        self.calling_timed = f"return _timed({', '.join(special)})" if special else ""
        # The global variable that holds the first item of the Route's key, the op or a form.
        self.called = "_op" if form is None else "_form" if form is op.form else "_usual"
        self.found = ["out", *[f"_r{i}" for i in range(more)]]
        # The items of the Route's key after the layouts, and for each attribute the condition that
        # it is the default.
        self.key, self.usual = list[str](), list[str]()
        self.constants, self.numbers = list[str](), list[str]()
        if form is not None:
            self.given = [name for name in form.body_names if name in form.run_body.used]
            self.constants, self.numbers = _constants(form, target), _numbers(form, general)
        else:
            self.given = list(op.tensors)
            self.key = [*op.attributes, *[f"{name}.__class__" for name in op.attributes]]
            self.usual = [f"{name} is _default_{name}" for name in op.attributes]
            if op.last_call is None:
                op.last_call = (None,) * (len(op.tensors) + len(op.attributes) + 1)

    def lines(self) -> list[str]:
        """Return the generated code as the lines of a function."""
        op, general, more = self.op, self.general, self.found[1:]
        lines = ["_start = _clock()"] if self.timed else self._checking()
        lines += self.numbers
        if self.target:
            return [*lines, *self._writing()]
        lines += [
            *self._looking_up(),
            "_run = _route.run",
            f"if _run is None: {general}",
        ]
        result = f"_run({', '.join(self._arrays())})"
        if op.kind == "view":
            lines.append(f"out = _see({result}, _route.layout, _route.steps, {op.tensors[0]})")
            return [*lines, *self._recording()]
        if not more:
            lines += ["out = _shell()", *self._guard(f"out._array = {result}")]
        else:
            lines += self._guard(f"{', '.join(f'_a{n}' for n in self.found)} = {result}")
            lines.append(f"{''.join(f'_l{n}, ' for n in more)} = _route.more")
            lines += [f"{name} = _shell(); {name}._array = _a{name}" for name in self.found]
        lines += ["out._layout = _route.layout", "out._extra = out._storage = None"]
        for name in more:
            lines.append(f"{name}._layout = _l{name}")
            lines.append(f"{name}._extra = {name}._storage = {name}._edge = None")
        return [*lines, *self._recording()]

    def _checking(self) -> list[str]:
        """Return the lines that convert numbers to tensors, and that send calls to the general path
        or to interpreters. One look-up in `_modes.plain` per operand shows that none is needed.
        """
        known, asking = self._not_in("_PLAIN"), self._asking()
        lines = []
        if self.constants and self.target == self.op.tensors[0]:
            lines, known = [f"if {known[0]}: {self.general}"], known[1:]
        strange = " or ".join(known)
        refusing = f"if {strange}: {self.general}"
        if asking:
            unknown = self._not_in("_plain" if len(known) > 1 or lines else "_modes.plain")
            setting = ["_plain = _modes.plain"] if len(unknown) > 1 else []
            lines += [*self._timing(), *self.constants, refusing, *asking]
            return [*setting, f"if {' or '.join(unknown)}:", *_deeper(lines)]
        if not self.constants:
            return [refusing]
        return [*lines, f"if {strange}:", *_deeper([*self.constants, refusing])]

    def _timing(self) -> list[str]:
        """Return the line that calls the timed path for tensors while only profiles are open."""
        if not self.calling_timed or self.op.optional:
            return []
        are_plain = " and ".join(self._per_tensor("{}.__class__ in _PLAIN"))
        asked = f"_modes.timed and _modes.special == _modes.timed and {are_plain}"
        return [f"if {asked}: {self.calling_timed}"]

    def _not_in(self, plain: str) -> list[str]:
        """Return, for each tensor, the condition that its class is not in `plain`."""
        found = self._per_tensor(f"{{}}.__class__ not in {plain}")
        return [*found, *[f"out.__class__ not in {plain}"] * (self.target == "out")]

    def _asking(self) -> list[str]:
        """Return the line for calls that an interpreter may see, or that have tangents; no line if
        another function has excluded such calls.
        """
        if self.target:
            return [f"if _modes.special: {self.special or self.general}"]
        if not self.special:
            return []
        concerned = " or ".join(["_modes.tracers", *self._per_tensor("{}._extra is not None")])
        return [f"if _modes.special and ({concerned}): {self.special}"]

    def _guard(self, line: str) -> list[str]:
        """Return `line`, which runs a Route, inside a `try`; a `try` without an error is free."""
        if not self.timed:
            return [f"try: {line}", "except MemoryError as _error: _raise_out_of_memory(_error)"]
        refusing = "if isinstance(_error, MemoryError): _raise_out_of_memory(_error)"
        failed = [*self._reporting(), refusing, "raise"]
        return [f"try: {line}", "except BaseException as _error:", *_deeper(failed)]

    def _reporting(self, number: str = "-1") -> list[str]:
        """Return the lines by which timed code reports the call; `number` is the Node's number."""
        event = "_event"
        if self.op.event_namer is not None:
            given = f"{_tuple(self.op.tensors)}, {_tuple(self.op.attributes)}"
            event = f"_route.event or _find_event(_op, _route, {given})"
        if not self.timed:
            return []
        # Usually only one recording is open. These lines append the op to that recording, which
        # saves a call of `add_op`.
        given = f"{event}, _start, _clock(), _thread.ident_and_name or _thread.own()"
        return [
            "_one = _ranges.only",
            "if _one is not None and len(_ops := _one.ops) < _one.most_ops:",
            f"    _ops.append(({given}, _ranges.node_id, {number}))",
            f"else: _report({event}, _start, {number})",
        ]

    def _arrays(self) -> list[str]:
        """Return the arguments of the Route's function."""
        tensors, optional = self.op.tensors, self.op.optional
        return [
            f"None if {name} is None else {name}._array"
            if name in optional
            else f"{name}._array"
            if name in tensors
            else f"_{name}._array"
            for name in self.given
        ]

    def _per_tensor(self, condition: str, *, but: str = "") -> list[str]:
        """Return `condition` for each tensor, with the tensor's name in place of `{}`. It is false
        for an optional tensor that is None.
        """
        return [
            f"({name} is not None and {condition.format(name)})"
            if name in self.op.optional
            else condition.format(name)
            for name in self.op.tensors
            if name != but
        ]

    def _writing(self) -> list[str]:
        """Return the lines that write into the target and return it, if no gradient needs a Node.

        Note    each call checks for overlap: a Route does not know whether operands share memory
        """
        target = self.target
        edges = [
            f"{target}._edge is not None",
            *self._per_tensor("{}._edge is not None", but=target),
        ]
        refused = ["out._layout is not _route.layout"] if target == "out" else []
        # Arrays of a device are never read-only.
        refused.append(f"(_route.layout.device is _CPU and not {target}._array.flags.writeable)")
        shared = (
            f"({{0}}._storage is {target}._storage is not None and {{0}} is not {target}"
            f" and _may_overlap({{0}}._array, {target}._array))"
        )
        refused += self._per_tensor(shared, but=target)
        if target == "out" and True in self.op.out.memory:
            refused += self._per_tensor("{} is out")
        return [
            f"if not {_OFF} and ({' or '.join(edges)}",
            f"    or ({target}._extra is not None and {target}._extra.base is not None",
            f"        and {target}._extra.base._edge is not None)): {self.general}",
            *self._looking_up(),
            f"_write = _route.{'write' if target == 'out' else 'change'}",
            f"if _write is None or {' or '.join(refused)}: {self.general}",
            *self._guard(f"_write({', '.join([*self._arrays(), f'{target}._array'])})"),
            f"_s = {target}._storage",
            f"if _s is None: _s = _storage_of({target})",
            "_s.bump()",
            *self._reporting(),
            f"return {target}",
        ]

    def _looking_up(self) -> list[str]:
        """Return the lines that look up the Route. If all operands have one layout and all
        attributes their defaults, the look-up takes half the time.
        """
        op, (first, *others) = self.op, self.op.tensors
        layouts = [
            f"None if {name} is None else {name}._layout"
            if name in op.optional
            else f"{name}._layout"
            for name in others
        ]
        lines = [f"_layout = {first}._layout"]
        key = ", ".join([self.called, *layouts, *self.key])
        get = [f"_route = _layout.routes.get(({key}), _NO_ROUTE)"]
        if self.key:
            # An attribute that is a list cannot be part of a key.
            get = [f"try: {get[0]}", "except TypeError: _route = _NO_ROUTE"]
        finding = "_NO_ROUTE"
        if self.form is not None:
            finding = f"_find_route({self.called}, _layout)"
        elif op.kind == "view" or op.defaults is None or op.optional:
            return [*lines, *self._as_last(layouts, get)]
        one = [
            f"try: _route = _layout.uniform_routes[{self.called}]",
            f"except KeyError: _route = {finding}",
        ]
        if self.key:
            get = self._as_last(layouts, get)
        usual = " and ".join([*(f"{layout} is _layout" for layout in layouts), *self.usual])
        if not usual:
            return [*lines, *one]
        return [*lines, f"if {usual}:", *_deeper(one), "else:", *_deeper(get)]

    def _as_last(self, layouts: list[str], get: list[str]) -> list[str]:
        """Return the lines that take the Route of the last call if this call has the same layouts
        and attributes. Otherwise the lines `get` look the Route up. See Note [The last call of an
        op].
        """
        given = ["_layout", *layouts, *self.op.attributes]
        kept = [f"_k{i}" for i in range(len(given))]
        pairs = zip(given, kept, strict=True)
        alike = " and ".join(f"{f'({a})' if ' ' in a else a} is {b}" for a, b in pairs)
        return [
            f"{', '.join(kept)}, _route = {self.called}.last_call",
            f"if not ({alike}):",
            *_deeper(get),
            "    if _route is not _NO_ROUTE:",
            f"        {self.called}.last_call = {', '.join(given)}, _route",
        ]

    def _recording(self) -> list[str]:
        """Return the lines that give the first result an edge, and the `return` of the results."""
        op, results = self.op, ", ".join(self.found)
        if not op.may_record:
            return ["out._edge = None", *self._reporting(), f"return {results}"]
        lines, unrecorded = [], []
        for i, (name, gradient) in enumerate(zip(op.tensors, op.gradients, strict=True)):
            if gradient is None:
                lines.append(f"_e{i} = None")
                continue
            none_if = f"None if {name} is None else " if name in op.optional else ""
            lines.append(f"_e{i} = {none_if}{name}._edge")
            unrecorded.append(f"_e{i} is None")
        nothing = " and ".join(unrecorded)
        writer = NodeWriter(op)
        if "others" in writer.results:
            lines.append(f"others = ({''.join(f'{name}, ' for name in self.found[1:])})")
        unwanted = f"not (_records := _route.records) or {_OFF}"
        # If all numbers have their defaults, the Node saves None in their place, because the
        # gradients do not need them.
        number = "_{}._array" if self.numbers else "None"
        return [
            *lines,
            f"if {f'({nothing})' if len(unrecorded) > 1 else nothing} or {unwanted}:",
            *_deeper(["out._edge = None", *self._reporting(), f"return {results}"]),
            "out._edge = _node = _Node()",
            "_node.seq = _next()",
            f"_node.edges = ({''.join(f'_e{i}, ' for i in range(len(op.tensors)))})",
            "_node.hooks = None",
            "_node.output_layout = _route.layout",
            "if _records is not True: _records(_node)",
            *writer.save_lines("_node", number, is_new=not self.target and op.kind != "view"),
            *self._reporting("_node.seq"),
            f"return {results}",
        ]


def _deeper(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def operator_call(
    op: RecordedOp, general: Callable[..., Any], order: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return a function that takes only op's tensors, and uses the defaults of all attributes.

    `general` serves the calls that the short path does not serve, and raises their errors. `order`
    is the order of the parameters if it differs from op's: for `1 - x`, Python passes x first.
    """
    statement = _call_general(op, "None", "_attributes")
    names = _names_of(op, _general=general, _attributes=op.defaults or ())
    write = partial(ShortPath, op, op.usual, statement)
    lines = write(special=op.tensors).lines()
    text = folding(_function(op.name, order or op.tensors, lines))
    made: Callable[..., Any] = define_silent(text, op.name, names)
    _add_special(made.__globals__, op, op.tensors, lambda: write(timed=True).lines())
    return made


def write_short_path(called: Op, op: RecordedOp, more: int = 0) -> None:
    """Give the public function of `called` the short path of `op`, unless it has one. `called` is
    `op` or its in-place twin. `more` is the number of results after the first.
    """
    if called.written is None:
        return
    (function, head, tail), called.written = called.written, None
    known: dict[str, Any] = function.__globals__
    known.update(_names_of(op, called))
    target = "" if called is op else op.tensors[0]
    write, general = partial(_short_path, op, more=more), _call_general(op, "None")
    given, statement = [*op.tensors, *op.attributes], tail.strip()
    lines = write(statement, target, special=given)
    _add_special(known, op, given, lambda: write(general, target, timed=True), more)
    if not target and op.has_out:
        into = lambda: write(_call_general(op, "out"), "out")  # noqa: E731
        _compile_at_first_call("_into", known, op, [*given, "out"], into)
        lines.insert(0, f"if out is not None: return _into({', '.join(given)}, out)")
    replace_code(function, head + _indented(lines), called.name)


def _names_of(op: RecordedOp, called: Op | None = None, **more: Any) -> dict[str, Any]:
    """Return the global names for the generated code of op, or of its in-place twin `called`."""
    node, defaults = op.may_record and op.node_class, {}
    if op.defaults is not None:
        pairs = zip(op.attributes, op.defaults, strict=True)
        defaults = {f"_default_{name}": value for name, value in pairs}
    if op.event_namer is None:
        defaults["_event"] = (called or op).event((), ())
    named = {"_op": op, "_form": op.form, "_usual": op.usual, "_Node": node}
    return NAMES | defaults | named | more


def _add_special(
    names: dict[str, Any],
    op: RecordedOp,
    parameters: Sequence[str],
    timed: Callable[[], list[str]],
    more: int = 0,
) -> None:
    """Add to `names` the functions that serve calls while special modes are on: the timed short
    path, and the result of `special_call` (call.py) with a short path that does not check modes.
    """
    plain = lambda: _short_path(op, _call_general(op, "None"), more=more)  # noqa: E731
    _compile_at_first_call("_timed", names, op, parameters, timed)
    _compile_at_first_call("_plain", names, op, [*op.tensors, *op.attributes], plain)
    names["_special"] = special_call(op, names, more > 0)


def _call_general(op: RecordedOp, out: str, attributes: str = "") -> str:
    """Return the source line that calls the general path of op."""
    return f"return _general({_tuple(op.tensors)}, {attributes or _tuple(op.attributes)}, {out})"


def _call_special(general: str, given: Sequence[str], target: str = "") -> str:
    """Return the source line that serves calls that an interpreter may see. If all interpreters are
    profiles that need only times, the line calls the timed short path with the arguments `given`.
    """
    if not given:
        return ""
    other = general.removeprefix("return ")
    if not target:
        other = other.replace("_general", "_special", 1)
    return f"return _timed({', '.join(given)}) if _modes.special == _modes.timed else {other}"


def _compile_at_first_call(
    name: str,
    names: dict[str, Any],
    op: RecordedOp,
    parameters: Sequence[str],
    lines: Callable[[], list[str]],
) -> None:
    """Store in `names` a function that compiles a variant of op with these parameters at its first
    call: most programs never use `out=` or a profile.
    """

    def first(*given: Any) -> Any:
        text = _function(op.name, parameters, lines())
        names[name] = made = define_silent(text, op.name, names)
        return made(*given)

    names[name] = first


def _tuple(names: Sequence[str]) -> str:
    return f"({''.join(f'{name}, ' for name in names)})"


def _short_path(
    op: RecordedOp, general: str, target: str = "", more: int = 0, **how: Any
) -> list[str]:
    """Return the lines of op's short path. An op with numbers has two paths; the first is for
    numbers at their defaults.
    """
    # A check registered by `refusal` may read numeric arguments; no short path runs such a check.
    checks = op.form is not None and bool(op.attributes) and op.form.op.looks_at_operands
    lines = [general]
    if not checks:
        lines = ShortPath(op, op.form, general, target, more, **how).lines()
    if op.usual is None or op.usual is op.form:
        return lines
    defaults = " and ".join(f"{name} is _default_{name}" for name in op.attributes)
    of_usual = ShortPath(op, op.usual, general, target, **how).lines()
    return [f"if {defaults}:", *_deeper(of_usual), *lines]


def _function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    return f"def {name}({', '.join(parameters)}):\n{_indented(lines)}"


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _constants(form: Form, target: str) -> list[str]:
    values = [name for name in form.op.tensors if name not in CONDITIONS]
    if len(values) < 2:
        return []
    lines: list[str] = []
    for name in reversed(values):  # the number is usually the last operand
        if name in form.op.tensors_only or name == target:
            continue
        others = [other for other in values if other is not name]
        like = others[-1]
        for other in reversed(others[:-1]):
            like = f"({other} if {other}.__class__ in _PLAIN else {like})"
        is_plain = "" if like == target else f" and {like}.__class__ in _PLAIN"
        lines += [
            f"if {name}.__class__ in _NUMBERS{is_plain}:",
            f"    {name} = _constant({name}, {like}{_exact(form, name)})",
        ]
    return lines


def _exact(form: Form, name: str) -> str:
    if name not in form.op.exact:
        return ""
    # A check registered by `refusal` reads all numeric arguments that follow the first operand.
    return ", True, False" if form.op.looks_at_operands and name != form.op.tensors[0] else ", True"


def _numbers(form: Form, refused: str) -> list[str]:
    like = next(name for name in form.op.tensors if name not in CONDITIONS)
    lines = []
    for name in form.number_names:
        made = f"_constant({name}, {like}{_exact(form, name)})"
        lines += [
            f"_{name} = None",
            f"if {name}.__class__ in _NUMBERS: _{name} = {made}",
            f"if _{name}.__class__ is not _Tensor: {refused}",
        ]
    return lines
