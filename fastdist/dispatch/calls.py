"""Writes what runs when users call an op: the short way through the five steps of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number
from ..kernels.cpu.silence import define_silent
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, empty_shell
from .constants import NUMBERS, constant
from .gradients import CONDITIONS
from .node_writer import NodeWriter, Recording
from .op import PLAIN, recoded
from .pointwise_form import PointwiseForm
from .pointwise_way import find_way
from .structured_form import StructuredForm
from .way import NO_WAY, Way

# Note [The short way]
# It is for operands of which nothing needs a look: plain Tensors, or numbers beside them, while no
# tracer is open and no operand has a tangent. One look-up finds the Way: by the op where all
# operands are of one layout and all attributes at their defaults, else by the op, the layouts and
# the attributes. The Way has the function that makes the result of raw arrays, its layout, and the
# functions that make the gradients. What differs from op to op (how many operands, what a Node
# saves) is written out as source: loops over names, and helpers, would take longer than the work.
# Whatever is unusual goes to the general way, and so does what has no Way yet.
#
# What it buys, 8x8 float32, ns without and with grad (AMD EPYC, Zen 5; `python -m bench ops`):
#   the general way              13000 | 15000
#   the short way of x * y         540 |   710, one Python function
#   - the same with its Way found by a tuple of op and layouts: 75 more
#   - with a Node's `save` as a call: 60 more with grad
#   x.sum() 750 | 890, x @ y 650 | 800, x.exp() 470 | 980, where(mask, x, y) 1650 | 1890
#
# Calls on a device are the same text: the Way's function is what the backend's `making` returned.
# On CUDA that has the compiled kernel, its grid and its extents, see Note [Prepared launches] in
# kernels/cuda/prepared.py: x + y takes 2000 | 2500 of Python over free kernels, the general way
# 9500 | 13600 (`python -m bench ops --device shim`).
#
# Operators of pointwise ops are functions of their own, made at their first use, for nothing stands
# between them and Python. The public functions, as op.py wrote them with the user's signature, get
# their short way as new code when the first Way is kept: whoever holds them runs it from then on.
NAMES: Final[dict[str, Any]] = {
    "_PLAIN": PLAIN,
    "_NO_WAY": NO_WAY,
    "_NUMBERS": NUMBERS,
    "_Tensor": Tensor,
    "_constant": constant,
    "_find": find_way,
    "_modes": modes,
    "_next": next_sequence_number,
    "_shell": empty_shell,
    "_tls": tls,
    "storage_of": storage_of,
}


class Call(NamedTuple):
    """What a short way is written from: names and expressions of the text, plain data.

    `general` is the statement that goes the general way, `unusual` are more conditions for it than
    those on the tensors. `given` is what the Way's function takes, `key` what a Way is found by
    beside the layouts. `constants` are the lines that make tensors of numbers among the operands,
    `numbers` those that do so of the op's own, and `number` is what a Node saves of one, `{}`.
    `usual` are the conditions that all attributes are at their defaults, None where one has none.
    `more` results come after the first. `finding` makes the Way for a layout that is new to the op.
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
    number: str = ""
    finding: str = "_NO_WAY"


def lines_of(call: Call) -> list[str]:
    """Return the short way as the lines of a function, of which each path returns."""
    given = [
        f"({name} is not None and {name}.__class__ not in _PLAIN)"
        if name in call.optional
        else f"{name}.__class__ not in _PLAIN"
        for name in call.tensors
    ]
    extras = [
        f"({name} is not None and {name}.extra is not None)"
        if name in call.optional
        else f"{name}.extra is not None"
        for name in call.tensors
    ]
    strange = " or ".join([*given, *call.unusual])
    lines = []
    if call.constants:
        lines = [f"if {strange}:", *[f"    {line}" for line in call.constants]]
        lines.append(f"    if {strange}: {call.general}")
    else:
        lines.append(f"if {strange}: {call.general}")
    lines += call.numbers
    concerned = " or ".join(["_modes.tracers", *extras])
    found = ["out", *[f"_r{i}" for i in range(call.more)]]
    lines += [
        f"if _modes.special and ({concerned}): {call.general}",
        *_looking_up(call),
        "_run = _way.run",
        f"if _run is None: {call.general}",
    ]
    if not call.more:
        lines += ["out = _shell()", f"out.array = _run({', '.join(call.given)})"]
    else:
        lines.append(f"{', '.join(f'_a{n}' for n in found)} = _run({', '.join(call.given)})")
        lines.append(f"{''.join(f'_l{n}, ' for n in found[1:])} = _way.more")
        lines += [f"{name} = _shell(); {name}.array = _a{name}" for name in found]
    lines += ["out.facts = _way.facts", "out.extra = out._storage = None"]
    for name in found[1:]:
        lines += [
            f"{name}.facts = _l{name}",
            f"{name}.extra = {name}._storage = {name}.edge = None",
        ]
    return [*lines, *_recording(call, found)]


def _looking_up(call: Call) -> list[str]:
    """Return the lines that find the Way. That of one layout for all, with the attributes at their
    defaults, is found in half of the time.
    """
    lines, others = [f"_layout = {call.tensors[0]}.facts"], call.tensors[1:]
    layouts = [
        f"None if {name} is None else {name}.facts" if name in call.optional else f"{name}.facts"
        for name in others
    ]
    get = [f"_way = _layout.plans.get(({', '.join(['_op', *layouts, *call.key])}), _NO_WAY)"]
    if call.key:
        # A list among the attributes is no key.
        get = [f"try: {get[0]}", "except TypeError: _way = _NO_WAY"]
    if call.usual is None or call.optional:
        return [*lines, *get]
    one = ["try: _way = _layout.ways[_op]", f"except KeyError: _way = {call.finding}"]
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
    unwanted = "not (_records := _way.records) or (_modes.grad_off and not _tls.grad)"
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


def pointwise_call(
    op: PointwiseForm, order: Sequence[str] = (), general: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return op as a function of its tensors and then its numbers, none of which has a default.

    `order` is another one of its parameters: of `1 - x`, Python tells x first. `general` is a
    general way that also says what is wrong with a call.
    """
    operands = "".join(f"{name}, " for name in op.tensors)
    numbers = "".join(f"{name}, " for name in op.number_names)
    lines = _pointwise_lines(op, f"return _general(({operands}), ({numbers}), None)")
    text = f"def {op.name}({', '.join(order or (*op.tensors, *op.number_names))}):\n"
    names = {**NAMES, "_op": op, "_general": general or op.general, "_Node": _node_class_of(op)}
    made: Callable[..., Any] = define_silent(_indented(text, lines), op.name, names)
    return made


def write_pointwise(op: PointwiseForm) -> None:
    """Give op's public function its short way: with its numbers at their defaults, if it has any,
    and else by a function that is made when it is first called so.
    """
    assert op.written is not None
    function, head, tail = op.written
    form = op.usual or op
    names = {**NAMES, "_op": form, "_Node": _node_class_of(op)}
    function.__globals__.update(names)
    function.__globals__["_with_numbers"] = _with_numbers(op, function.__globals__)
    lines = []
    if op.number_names:
        given = ", ".join([*op.tensors, *op.number_names])
        others = " or ".join(f"{name} is not _default_{name}" for name in op.number_names)
        condition = "out is None" if op.usual is None else f"out is None and ({others})"
        lines = [f"if {condition}: return _with_numbers({given})"]
    if op.usual is not None:
        lines += _pointwise_lines(form, tail.strip(), unusual=("out is not None",))
    recoded(function, f"{_indented(head, lines)}{tail}", op.name)


def _with_numbers(op: PointwiseForm, names: dict[str, Any]) -> Callable[..., Any]:
    """Return what makes itself op's function of tensors and numbers, in names, when first called:
    most programs leave most numbers as they are.
    """

    def first(*given: Any) -> Any:
        names["_with_numbers"] = made = pointwise_call(op, general=names["_general"])
        return made(*given)

    return first


def _node_class_of(op: PointwiseForm) -> Any:
    return op.node_class if op.differentiable and op.dtype != "bool" else None


def _pointwise_lines(op: PointwiseForm, general: str, unusual: tuple[str, ...] = ()) -> list[str]:
    used = op.run_body.used
    return lines_of(
        Call(
            op.tensors,
            general,
            tuple(
                [
                    f"{name}.array" if name in op.tensors else f"_{name}.array"
                    for name in op.body_names
                    if name in used
                ]
            ),
            op.recording if op.differentiable and op.dtype != "bool" else None,
            constants=tuple(_constants(op)),
            numbers=tuple(_numbers(op, general)),
            unusual=unusual,
            # The op with its numbers at their defaults saves none: no gradient asks for them.
            number="_{}.array" if op.number_names else "None",
            finding="_find(_op, _layout)",
        )
    )


def _indented(head: str, lines: Sequence[str]) -> str:
    return head + "".join(f"    {line}\n" for line in lines)


def _constants(op: PointwiseForm) -> list[str]:
    values = [name for name in op.tensors if name not in CONDITIONS]
    if len(values) < 2:
        return []
    lines: list[str] = []
    for name in reversed(values):  # a number mostly comes last
        if name in op.tensors_only:
            continue
        others = [other for other in values if other is not name]
        like = others[-1]
        for other in reversed(others[:-1]):
            like = f"({other} if {other}.__class__ in _PLAIN else {like})"
        lines += [
            f"if {name}.__class__ in _NUMBERS and {like}.__class__ in _PLAIN:",
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


def structured_lines(op: StructuredForm, more: int, general: str, *, out: bool) -> list[str]:
    """Return the short way through an op that gives `more` results after the first; `out` says
    whether the text has a parameter of that name.
    """
    arrays = [
        f"None if {name} is None else {name}.array" if name in op.optional else f"{name}.array"
        for name in op.tensors
    ]
    return lines_of(
        Call(
            op.tensors,
            general,
            tuple(arrays),
            op.recording() if op.vjps else None,
            optional=op.optional,
            unusual=("out is not None",) if out else (),
            key=tuple(op.key_text),
            usual=op.usual_text,
            more=more,
        )
    )


def write_structured(op: StructuredForm, way: Way) -> None:
    """Give op's public function its short way; way says how many results there are."""
    assert op.written is not None
    function, head, tail = op.written
    function.__globals__.update(NAMES)
    if op.vjps:
        function.__globals__["_Node"] = op.node_class
    lines = structured_lines(op, len(way.more), tail.strip(), out=op.has_out)
    recoded(function, _indented(head, lines), op.name)


def structured_call(op: StructuredForm, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return an op of one result, without attributes, as a function of its tensors: an operator."""
    names = {**NAMES, "_op": op, "_general": general, "_Node": op.node_class}
    operands = "".join(f"{name}, " for name in op.tensors)
    lines = structured_lines(op, 0, f"return _general(({operands}), ())", out=False)
    text = f"def {op.name}({', '.join(op.tensors)}):\n"
    made: Callable[..., Any] = define_silent(_indented(text, lines), op.name, names)
    return made


def write_view(op: StructuredForm, see: Callable[..., Tensor]) -> None:
    """Give a view op's public function its short way; see(raw view, its layout, its steps, of which
    Tensor) makes the view.
    """
    assert op.written is not None
    function, head, tail = op.written
    function.__globals__.update(_PLAIN=PLAIN, _modes=modes, _seen=_seen(op, see))
    lines = [
        "if input.__class__ in _PLAIN and not _modes.special:",
        f"    try: _way = input.facts.plans.get(({', '.join(['_op', *op.key_text])},))",
        "    except TypeError: _way = None",
        "    if _way is not None: return _seen(_way, input)",
    ]
    recoded(function, f"{_indented(head, lines)}{tail}", op.name)


def _seen(op: StructuredForm, see: Callable[..., Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Return the function of a Way and a Tensor that makes the view and records it."""
    Node: Any = op.node_class

    def seen(way: Any, input: Tensor) -> Tensor:
        result = see(way.run(input.array), way.facts, way.steps, input)
        edge = input.edge
        if edge is not None and not (modes.grad_off and not tls.grad):
            result.edge = node = Node()
            node.seq = next_sequence_number()
            node.edges = (edge,)
            node.hooks = None
            node.facts = result.facts
            node.way = way
            records = way.records
            if records is not True:
                records(node)
        return result

    return seen
