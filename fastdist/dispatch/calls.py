"""Writes what runs when users call an op: the short path through the five steps of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..core.device import CPU
from ..core.errors import out_of_memory
from ..core.scalar import CONDITIONS
from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number
from ..kernels.cpu.silence import define_silent
from ..tensor.constants import NUMBERS, constant
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, empty_shell
from .memory import may_overlap
from .node_writer import NodeWriter, Recording
from .op import PLAIN, Op, recoded
from .pointwise_form import PointwiseForm
from .pointwise_way import find_way
from .structured_form import StructuredForm
from .way import NO_WAY

# Note [The short path]
# It is for operands of which nothing needs a look: plain Tensors, or numbers beside them, while no
# tracer is open and no operand has a tangent. One look-up finds the Way: by the op where all
# operands are of one layout and all attributes at their defaults, else by the op, the layouts and
# the attributes. The Way has the function that makes the result of raw arrays, its layout, and the
# functions that make the gradients. What differs from op to op (how many operands, what a Node
# saves) is written out as source: loops over names, and helpers, would take longer than the work.
# Whatever is unusual goes to the general path, and so does what has no Way yet.
#
# What it buys, 8x8 float32, ns without and with grad (AMD EPYC, Zen 5; `python -m bench ops`):
#   the general path             13000 | 15000
#   the short path of x * y        540 |   710, one Python function
#   - the same with its Way found by a tuple of op and layouts: 75 more
#   - with a Node's `save` as a call: 60 more with grad
#   x.sum() 750 | 890, x @ y 650 | 800, x.exp() 470 | 980, where(mask, x, y) 1650 | 1890
#
# Operands that need a cast are cast by the Way's function (`casting` in way.py): float32 * bool
# takes 2500 | 2800, the general path 14200 | 18800 (Zen 5).
#
# What is written into memory that is there, `x.add_(y)` and `add(x, y, out=z)`, is the same text
# with a `target`, if nothing is to be recorded: the Way's `change` or `write` takes its array last.
# x.add_(y) takes 890, add(x, y, out=z) 1040, the general path of both 10700 (Zen 4).
#
# Calls on a device are the same text: the Way's function is what the backend's `making` returned.
# On CUDA that has the compiled kernel, its grid and its extents, see Note [Prepared launches] in
# kernels/cuda/prepared.py: x + y takes 2000 | 2500 of Python over free kernels, the general path
# 9500 | 13600 (`python -m bench ops --device shim`).
#
# A view is the same text as well, but for what its result is made by: x.view(64) takes 1260 | 1420,
# which as a call of its own took 1290 | 1450 (Zen 5).
#
# Operators are functions of their own, made at their first use, for nothing stands between them and
# Python. The public functions, as op.py wrote them with the user's signature, get their short path
# as new code when the first Way is kept: whoever holds them runs it from then on.
NAMES: Final[dict[str, Any]] = {
    "_PLAIN": PLAIN,
    "_NO_WAY": NO_WAY,
    "_CPU": CPU,
    "_NUMBERS": NUMBERS,
    "_Tensor": Tensor,
    "_constant": constant,
    "_find": find_way,
    "_modes": modes,
    "_next": next_sequence_number,
    "_out_of_memory": out_of_memory,
    "_overlap": may_overlap,
    "_shell": empty_shell,
    "_tls": tls,
    "storage_of": storage_of,
}


# Whether recording is off, found in 6 ns while no thread has it off; `tls.grad` takes 40.
_OFF: Final = "(_modes.grad_off and not _tls.grad)"


class Call(NamedTuple):
    """What a short path is written from: names and expressions of the text, plain data.

    `target` is the tensor that the result is written into, the first operand or `out`; empty where
    the result is new. `op` is what the text calls the op. `general` is the statement that takes the
    general path, `unusual` are more conditions for it than those on the tensors. `given` is what
    the Way's function takes, `key` what a Way is found by beside the layouts. `constants` are the
    lines that make tensors of numbers among the operands, `numbers` those that do so of the op's
    own, and `number` is what a Node saves of one, `{}`. `usual` are the conditions that all
    attributes are at their defaults, None where one has none. `more` results come after the first;
    a result that is `seen` is a view, which `_see` makes. `finding` makes the Way for a layout that
    is new to the op.
    """

    tensors: tuple[str, ...]
    general: str
    given: tuple[str, ...]
    recording: Recording | None
    optional: frozenset[str] = frozenset()
    constants: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    unusual: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    usual: tuple[str, ...] | None = ()
    more: int = 0
    seen: bool = False
    number: str = ""
    finding: str = "_NO_WAY"
    op: str = "_op"
    target: str = ""


def lines_of(call: Call) -> list[str]:
    """Return the short path as the lines of a function, of which each path returns."""
    given = _of_each(call, "{}.__class__ not in _PLAIN")
    extras = _of_each(call, "{}.extra is not None")
    lines = []
    if call.constants and call.target == call.tensors[0]:
        lines, given = [f"if {given[0]}: {call.general}"], given[1:]
    strange = " or ".join([*given, *call.unusual])
    if call.constants:
        lines += [f"if {strange}:", *_deeper(call.constants)]
        lines.append(f"    if {strange}: {call.general}")
    else:
        lines.append(f"if {strange}: {call.general}")
    lines += call.numbers
    if call.target:
        return [*lines, f"if _modes.special: {call.general}", *_writing(call)]
    concerned = " or ".join(["_modes.tracers", *extras])
    found = ["out", *[f"_r{i}" for i in range(call.more)]]
    lines += [
        f"if _modes.special and ({concerned}): {call.general}",
        *_looking_up(call),
        "_run = _way.run",
        f"if _run is None: {call.general}",
    ]
    result, more = f"_run({', '.join(call.given)})", found[1:]
    if call.seen:
        lines.append(f"out = _see({result}, _way.facts, _way.steps, {call.tensors[0]})")
        return [*lines, *_recording(call, found)]
    if not more:
        lines += ["out = _shell()", *_made(f"out.array = {result}")]
    else:
        lines += _made(f"{', '.join(f'_a{n}' for n in found)} = {result}")
        lines.append(f"{''.join(f'_l{n}, ' for n in more)} = _way.more")
        lines += [f"{name} = _shell(); {name}.array = _a{name}" for name in found]
    lines += ["out.facts = _way.facts", "out.extra = out._storage = None"]
    for name in more:
        lines.append(f"{name}.facts = _l{name}")
        lines.append(f"{name}.extra = {name}._storage = {name}.edge = None")
    return [*lines, *_recording(call, found)]


def _made(line: str) -> list[str]:
    """Return the lines that run a Way; what is tried costs nothing where it succeeds."""
    return [
        f"try: {line}",
        "except MemoryError as _error: raise _out_of_memory(_error) from _error",
    ]


def _of_each(call: Call, condition: str, *, but: str = "") -> list[str]:
    """Return a condition on a tensor `{}` for each one, which holds for none that is not given."""
    return [
        f"({name} is not None and {condition.format(name)})"
        if name in call.optional
        else condition.format(name)
        for name in call.tensors
        if name != but
    ]


def _writing(call: Call) -> list[str]:
    """Return the lines that write into the target, if no gradient asks for a Node, and return it.

    Note    no Way knows whether views of one tensor overlap, so each call looks
    """
    target = call.target
    edges = [f"{target}.edge is not None", *_of_each(call, "{}.edge is not None", but=target)]
    refused = ["out.facts is not _way.facts"] if target == "out" else []
    # No memory of a device's is read-only.
    refused.append(f"(_way.facts.device is _CPU and not {target}.array.flags.writeable)")
    shared = (
        f"({{0}}._storage is {target}._storage is not None and {{0}} is not {target}"
        f" and _overlap({{0}}.array, {target}.array))"
    )
    refused += _of_each(call, shared, but=target)
    return [
        f"if not {_OFF} and ({' or '.join(edges)}",
        f"    or ({target}.extra is not None and {target}.extra.base is not None",
        f"        and {target}.extra.base.edge is not None)): {call.general}",
        *_looking_up(call),
        f"_write = _way.{'write' if target == 'out' else 'change'}",
        f"if _write is None or {' or '.join(refused)}: {call.general}",
        f"_write({', '.join([*call.given, f'{target}.array'])})",
        f"_s = {target}._storage",
        f"if _s is None: _s = storage_of({target})",
        "_s.bump()",
        f"return {target}",
    ]


def _looking_up(call: Call) -> list[str]:
    """Return the lines that find the Way. That of one layout for all, with the attributes at their
    defaults, is found in half of the time.
    """
    lines, others = [f"_layout = {call.tensors[0]}.facts"], call.tensors[1:]
    layouts = [
        f"None if {name} is None else {name}.facts" if name in call.optional else f"{name}.facts"
        for name in others
    ]
    key = ", ".join([call.op, *layouts, *call.key])
    get = [f"_way = _layout.plans.get(({key}), _NO_WAY)"]
    if call.key:
        # A list among the attributes is no key.
        get = [f"try: {get[0]}", "except TypeError: _way = _NO_WAY"]
    if call.usual is None or call.optional:
        return [*lines, *get]
    one = [f"try: _way = _layout.ways[{call.op}]", f"except KeyError: _way = {call.finding}"]
    usual = " and ".join([*(f"{layout} is _layout" for layout in layouts), *call.usual])
    if not usual:
        return [*lines, *one]
    return [*lines, f"if {usual}:", *_deeper(one), "else:", *_deeper(get)]


def _deeper(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _recording(call: Call, found: Sequence[str]) -> list[str]:
    """Return the lines that give the first result an edge, and return."""
    results = ", ".join(found)
    if call.recording is None:
        return ["out.edge = None", f"return {results}"]
    lines, unrecorded = [], []
    pairs = zip(call.tensors, call.recording.gradients, strict=True)
    for i, (name, gradient) in enumerate(pairs):
        if gradient is None:
            lines.append(f"_e{i} = None")
            continue
        none_if = f"None if {name} is None else " if name in call.optional else ""
        lines.append(f"_e{i} = {none_if}{name}.edge")
        unrecorded.append(f"_e{i} is None")
    nothing = " and ".join(unrecorded)
    writer = NodeWriter(call.recording)
    if "others" in writer.results:
        lines.append(f"others = ({''.join(f'{name}, ' for name in found[1:])})")
    unwanted = f"not (_records := _way.records) or {_OFF}"
    return [
        *lines,
        f"if {f'({nothing})' if len(unrecorded) > 1 else nothing} or {unwanted}:",
        "    out.edge = None",
        f"    return {results}",
        "out.edge = _node = _Node()",
        "_node.seq = _next()",
        f"_node.edges = ({''.join(f'_e{i}, ' for i in range(len(call.tensors)))})",
        "_node.hooks = None",
        "_node.facts = _way.facts",
        "if _records is not True: _records(_node)",
        *writer.save_lines("_node", call.number),
        f"return {results}",
    ]


def operator_call(
    op: PointwiseForm | StructuredForm, general: Callable[..., Any], order: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return op as a function of its tensors and then its numbers, none of which has a default;
    general also says what is wrong with a call.

    `order` is another one of its parameters: of `1 - x`, Python tells x first.
    """
    text = f"def {op.name}({', '.join(order or (*op.tensors, *op.attributes))}):\n"
    names = {**NAMES, "_op": op, "_general": general, "_Node": _node_class_of(op)}
    lines = _short_path(op, _going(op, "None"))
    made: Callable[..., Any] = define_silent(_indented(text, lines), op.name, names)
    return made


def write_short_path(
    called: Op, op: PointwiseForm | StructuredForm, more: int = 0, **names: Any
) -> None:
    """Give a public function its short path, once: that of op, which gives `more` results after the
    first, or of its in-place twin.
    """
    if called.written is None or called.has_short_path:
        return
    called.has_short_path = True
    function, head, tail = called.written
    known: dict[str, Any] = function.__globals__
    known.update(NAMES, _op=op, _usual=getattr(op, "usual", None), **names)
    if called is not op:
        lines = _short_path(op, tail.strip(), op.tensors[0])
    else:
        known["_Node"] = _node_class_of(op)
        lines = _short_path(op, tail.strip(), more=more)
        if op.has_out:
            into = lambda: _short_path(op, _going(op, "out"), "out", more)  # noqa: E731
            known["_into"] = _made_later("_into", known, op, into)
            given = ", ".join([*op.tensors, *op.attributes])
            lines.insert(0, f"if out is not None: return _into({given}, out)")
    recoded(function, _indented(head, lines), called.name)


def _going(op: PointwiseForm | StructuredForm, out: str) -> str:
    """Return the statement of a text that goes op's general path."""
    operands = "".join(f"{name}, " for name in op.tensors)
    attributes = "".join(f"{name}, " for name in op.attributes)
    return f"return _general(({operands}), ({attributes}), {out})"


def _made_later(
    name: str, names: dict[str, Any], op: Any, lines: Callable[[], list[str]]
) -> Callable[..., Any]:
    """Return a function that, first called, makes the one of op's parameters and `out` that stands
    in names from then on: most programs give no out=.
    """

    def first(*given: Any) -> Any:
        text = f"def {op.name}({', '.join([*op.tensors, *op.attributes])}, out):\n"
        names[name] = made = define_silent(_indented(text, lines()), op.name, names)
        return made(*given)

    return first


def _node_class_of(op: PointwiseForm | StructuredForm) -> Any:
    return op.node_class if op.may_record else None


def _short_path(
    op: PointwiseForm | StructuredForm, general: str, target: str = "", more: int = 0
) -> list[str]:
    if isinstance(op, PointwiseForm):
        return _forms(op, general, target)
    return _structured_lines(op, more, general, target)


def _forms(op: PointwiseForm, general: str, target: str) -> list[str]:
    """Return the short paths of op: with its numbers at their defaults, and of any others."""
    # A refusal may speak of the op's numbers, which no short path looks at.
    looks = bool(op.attributes) and op.looks_at_operands
    lines = [general] if looks else _pointwise_lines(op, general, target=target)
    if op.usual is None or op.usual is op:
        return lines
    usual = _pointwise_lines(op.usual, general, op="_usual", target=target)
    defaults = " and ".join(f"{name} is _default_{name}" for name in op.number_names)
    return [f"if {defaults}:", *_deeper(usual), *lines]


def _pointwise_lines(
    form: PointwiseForm, general: str, *, op: str = "_op", target: str = ""
) -> list[str]:
    used = form.run_body.used
    given = [
        f"{name}.array" if name in form.tensors else f"_{name}.array"
        for name in form.body_names
        if name in used
    ]
    return lines_of(
        Call(
            form.tensors,
            general,
            tuple(given),
            form.recording if form.may_record and not target else None,
            constants=tuple(_constants(form, target)),
            numbers=tuple(_numbers(form, general)),
            unusual=("out.__class__ not in _PLAIN",) if target == "out" else (),
            # The op with its numbers at their defaults saves none: no gradient asks for them.
            number="_{}.array" if form.number_names else "None",
            finding=f"_find({op}, _layout)",
            op=op,
            target=target,
        )
    )


def _indented(head: str, lines: Sequence[str]) -> str:
    return head + "".join(f"    {line}\n" for line in lines)


def _constants(op: PointwiseForm, target: str) -> list[str]:
    values = [name for name in op.tensors if name not in CONDITIONS]
    if len(values) < 2:
        return []
    lines: list[str] = []
    for name in reversed(values):  # a number mostly comes last
        if name in op.tensors_only or name == target:
            continue
        others = [other for other in values if other is not name]
        like = others[-1]
        for other in reversed(others[:-1]):
            like = f"({other} if {other}.__class__ in _PLAIN else {like})"
        is_plain = "" if like == target else f" and {like}.__class__ in _PLAIN"
        lines += [
            f"if {name}.__class__ in _NUMBERS{is_plain}:",
            f"    {name} = _constant({name}, {like})",
        ]
    return lines


def _numbers(op: PointwiseForm, refused: str) -> list[str]:
    like = next(name for name in op.tensors if name not in CONDITIONS)
    lines = []
    for name in op.number_names:
        lines += [
            f"_{name} = _constant({name}, {like}) if {name}.__class__ in _NUMBERS else None",
            f"if _{name}.__class__ is not _Tensor: {refused}",
        ]
    return lines


def _structured_lines(op: StructuredForm, more: int, general: str, target: str) -> list[str]:
    arrays = [
        f"None if {name} is None else {name}.array" if name in op.optional else f"{name}.array"
        for name in op.tensors
    ]
    is_view = op.kind == "view"
    usual = [f"{name} is _default_{name}" for name in op.attributes]
    return lines_of(
        Call(
            op.tensors,
            general,
            tuple(arrays),
            op.recording if op.may_record and not target else None,
            optional=op.optional,
            unusual=("out.__class__ not in _PLAIN",) if target else (),
            key=(*op.attributes, *[f"{name}.__class__" for name in op.attributes]),
            usual=None if is_view or op.defaults is None else tuple(usual),
            more=more,
            seen=is_view,
            target=target,
        )
    )
