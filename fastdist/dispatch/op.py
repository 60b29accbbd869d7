"""An op: one declaration in one table, from which its functions, Node and derivatives are made."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from ..core.device import CPU, Device
from ..core.errors import DeclarationError, DeviceError
from ..core.folded_frames import fold
from ..core.generated_code import register_text
from ..core.torch_function import NOT_TAKEN
from ..graph.modes import set_plain_classes
from ..interpreters.torch_function import offer_op
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .declaration import (
    LateSignature,
    OutRule,
    defaults_of,
    event_named,
    homes_of,
    is_tensor,
    node_named,
    parameter_names,
    require_word,
    shared,
    without_formula,
)
from .signature import NUMPY_NAMES, UNCLEAR, explain, find_fault, require_fits

PLAIN = frozenset({Tensor, Parameter})
set_plain_classes(PLAIN)
# The operands of a call, or its attributes.
Given = tuple[Any, ...]
Rule = TypeVar("Rule", bound=Callable[..., Any])
# The types of an op's declared parameters and of its result; a plain `Op` allows any types.
if TYPE_CHECKING:
    import typing_extensions

    P = typing_extensions.ParamSpec("P", default=...)
    R = typing_extensions.TypeVar("R", default=Any)
else:
    P, R = ParamSpec("P"), TypeVar("R")


def registrar(attribute: str) -> Callable[[Any, Rule], Rule]:
    """Return a decorator method for ops; it stores the decorated function in this attribute."""

    def register(op: Any, function: Rule) -> Rule:
        setattr(op, attribute, function)
        return function

    return register


class Op(Generic[P, R]):
    """The attributes of every kind of op: name, signature, tensors and attributes.

    A call `op(x)` calls `op.public`, which also takes `out=` and NumPy's argument names. Each op
    stores that function as its `__call__`: a method that calls `op.public` would cost 90 ns more.

    `tensors` are the names of parameters annotated with the text `Tensor` (or `Tensor | None`). All
    other parameters are attributes, passed on unchanged. `general` takes (operands, attributes,
    out) and returns the result; each kind of op defines it. `known_as` and `node` are PyTorch's
    names for the op, see declaration.py. `out` and `memory` say which tensors the op accepts as
    `out=`, see OutRule. `homes` says where users find the op, as keys of HOMES; the default depends
    on the kind of op.
    """

    # Slots, because the import makes 600 ops, and the dict of an op with more than 30 attributes
    # takes 1.6 KB.
    __slots__ = (
        "__call__", "__dict__", "__weakref__", "attributes", "batching", "complex_decomposition",
        "declared", "event_namer", "fitted", "formatted", "has_out", "known_as", "last_call",
        "name", "node", "node_namer", "offered_as", "optional", "out", "returns", "tensors",
        "written",
    )  # fmt: skip
    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call the public function."""

    kind = "op"
    several = False  # whether gradients flow through all its results, not only the first
    homes: frozenset[str] = frozenset({"function", "method"})

    # The name of a keyword argument that is appended to the list parameter (such as `*shape`).
    also_listed: ClassVar[str | None] = None

    def __init__(
        self,
        function: Callable[P, R],
        known_as: str = "",
        node: str = "",
        homes: str | None = None,
        out: str = "same",
        memory: str = "anywhere",
    ) -> None:
        self.call_later()
        self.name = function.__name__
        if homes is not None:
            self.homes = homes_of(self.name, homes)
        self.known_as = known_as or self.name
        self.node = node or self.known_as
        # The layouts, attributes and Route of the last call, see Note [The last call of an op].
        self.last_call: tuple[Any, ...] | None = None
        # Two functions, which return the name of a call's event and the name of a call's Node.
        # Each is None if the name does not depend on the call.
        self.event_namer: Callable[[Any, Any], str] | None = None
        self.node_namer: Callable[[Any], str] | None = None
        self.declared: Callable[..., Any] = function
        annotations, names = function.__annotations__, parameter_names(function)
        self.tensors = tuple([name for name in names if is_tensor(self.name, name, function)])
        self.attributes = tuple([name for name in names if name not in self.tensors])
        self.returns = str(annotations.get("return"))
        self.optional = shared(frozenset([n for n in self.tensors if "None" in annotations[n]]))
        self.has_out = True
        self.out = OutRule(self.name, out, memory)
        # The function that users call for this op, if it is not `public`. Interpreters see it as
        # the function of the call.
        self.offered_as: Callable[..., Any] | None = None
        # Tuples of the classes of attributes that passed the checks: see Note [Classes that fitted]
        # in signature.py.
        self.fitted: set[Any] = set()
        # How the op runs on a batch: the declaration's `batch=`, or a function registered by
        # `batches`.
        self.batching: Any = ""
        # If the op takes the keyword `memory_format`, the function of (input, memory_format) that
        # serves calls with this keyword.
        self.formatted: Callable[..., Any] | None = None
        # Three items: the public function that `public_function` generated, its source without the
        # last statement, and the last statement, which calls `general`. A short path is inserted
        # before the last statement. None before the function is made, and once it has a short path.
        self.written: tuple[Callable[..., Any], str, str] | None = None
        # The function that computes this op for complex operands with other ops, if this op's
        # kernel does not take complex operands.
        self.complex_decomposition: Callable[..., Any] | None = None

    @functools.cached_property
    def called(self) -> str:
        """The op's name in errors. For a helper op, it is PyTorch's name of the function that users
        called.
        """
        return self.name if self.homes else without_formula(self.known_as)

    @property
    def node_name(self) -> str:
        """The name that `grad_fn` shows for the op's Nodes."""
        return node_named(self.node)

    # Registers the function of (operands, attributes) that names a call's event in a profile.
    names_event = registrar("event_namer")
    # Registers the function that names a call's Node.
    names_node = registrar("node_namer")
    # Registers how the op runs on a batch: a function of (op, operands, attributes, level) that
    # returns the values of the results. See Note [Batching rules] in interpreters/batching.py.
    batches = registrar("batching")

    def event(self, operands: Any, attributes: Any) -> str:
        """Return the name of a call's event in a profile."""
        if self.event_namer is None:
            return event_named(self.known_as)
        return event_named(self.event_namer(operands, attributes))

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the signature that users see."""
        return inspect.signature(self.declared).parameters

    @functools.cached_property
    def public(self) -> Callable[..., R]:
        """The function that users call, made at its first use: many ops are never called by
        users.
        """
        return public_function(self)

    @functools.cached_property
    def defaults(self) -> tuple[Any, ...] | None:
        """The defaults of the attributes; None if an attribute has no default."""
        given = defaults_of(self.declared)
        if not given.keys() >= set(self.attributes):
            return None
        return tuple([given[name] for name in self.attributes])

    def is_usual(self, attributes: tuple[Any, ...]) -> bool:
        """Return whether each attribute is the same object as its default."""
        defaults = self.defaults
        return defaults is not None and all(map(operator.is_, attributes, defaults))

    def call_later(self) -> None:
        """Make the public function only when the op is first called; later calls run it
        directly.
        """
        self.__call__ = self._call_first  # type: ignore[method-assign]

    def _call_first(self, *args: Any, **kwargs: Any) -> Any:
        self.__call__ = self.public  # type: ignore[method-assign]
        return self.public(*args, **kwargs)

    def fit_attributes(self, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return attributes, with tensors that stand for numbers replaced by numbers.

        Raises  TypeError for a value of the wrong kind
        """
        classes = tuple(map(type, attributes))
        if classes in self.fitted:
            return attributes
        given = dict(zip(self.attributes, attributes, strict=True))
        if require_fits(self.called, self.parameters, given):
            self.fitted.add(classes)
        return tuple(given.values())

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Take the general path: check, offer the call to interpreters, run, record, carry
        tangents.
        """
        raise NotImplementedError(self.name)

    def general_call(self) -> Callable[..., Any]:
        """Return the function of (operands, attributes, out) that the public function calls. It
        offers the call to interpreters, checks it against the signature, and takes the general
        path.
        """

        def general(operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any) -> Any:
            found = offer_op(self, operands, attributes, out)
            if found is not NOT_TAKEN:
                return found
            attributes = self.fit_attributes(attributes)
            try:
                return finish(self, self.general(operands, attributes, out), operands)
            except UNCLEAR as error:
                names, values = (*self.tensors, *self.attributes), (*operands, *attributes)
                given = dict(zip(names, values, strict=True))
                explain(error, lambda: find_fault(self.called, self.parameters, given))
                raise

        return general

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name}>"


AnyOp = TypeVar("AnyOp", bound=Op)
Options = ParamSpec("Options")
Declared = TypeVar("Declared", bound=Callable[..., Any])
OPS: dict[str, Op] = {}


def declarator(
    kind: Callable[Concatenate[Declared, Options], AnyOp],
) -> Callable[Options, Callable[[Declared], AnyOp]]:
    """Return the decorator that declares ops of the class `kind`. The decorator's arguments are the
    arguments of that class, without the function.

    The decorated function gives the op its name, signature and docstring. Names must be unique.
    """

    def with_options(
        *options: Options.args, **named: Options.kwargs
    ) -> Callable[[Declared], AnyOp]:
        if options and isinstance(options[0], FunctionType):
            raise DeclarationError(
                f"{options[0].__name__}: the decorator has no parentheses; write its options in "
                "them, or ()"
            )

        def declare(function: Declared) -> AnyOp:
            try:
                op = kind(function, *options, **named)
            except TypeError:
                _require_options(function.__name__, kind, options, named)
                raise
            if op.name in OPS:
                raise DeclarationError(f"{op.name} is declared twice")
            OPS[op.name] = op
            return op

        return declare

    return with_options


def _require_options(
    name: str, kind: Any, options: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Raise DeclarationError if the class `kind` of ops does not take these options."""
    signature = inspect.signature(kind)
    known = [word for word in signature.parameters if word != "function"]
    for word in named:
        require_word(f"{name}: an option of the decorator", word, known)
    try:
        signature.bind(None, *options, **named)
    except TypeError as fault:
        raise DeclarationError(f"{name}: the options of the decorator: {fault}") from None


def public_function(op: Op) -> Callable[..., Any]:
    """Generate the public function. Python checks the arguments, by the function's signature."""
    names: dict[str, Any] = {"_op": op, "_general": op.general_call()}
    names |= {"_absent": ABSENT, "_one": _one_of_two, "_missing": _refuse_missing}
    taken, defaults = parameter_names(op.declared), defaults_of(op.declared)
    code = op.declared.__code__
    by_name = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    places = code.co_argcount + len(by_name)
    listed = code.co_varnames[places] if code.co_flags & inspect.CO_VARARGS else None
    aliased = [name for name in taken if name in NUMPY_NAMES]
    parts, starred, required = [], False, list[str]()
    for text in taken:
        name = text
        if name == listed:
            text, starred = f"*_{text}", True
        elif name in by_name and not starred:
            parts.append("*")
            starred = True
        if name in defaults:
            names[f"_default_{name}"] = defaults[name]
            text += f"=_default_{name}"
        elif (name in aliased or required) and name != listed:
            # It may be passed under its NumPy name, so Python must not report it as missing.
            required.append(name)
            text += "=_absent"
        parts.append(text)
    keywords = ["out=None"] if op.has_out else []
    keywords += [f"{NUMPY_NAMES[name]}=_absent" for name in aliased]
    lists = [name for name in (listed, op.also_listed) if name]
    keywords += [f"{name}=_absent" for name in lists]
    if op.formatted is not None:
        names["_formatted"] = op.formatted
        keywords.append("memory_format=None")
    parts += keywords if starred or not keywords else ["*", *keywords]
    lines = [f"def public({', '.join(parts)}):\n"]
    for name in lists if listed else ():
        # The list parameter may be passed by keyword: permute(x, 1, 0), or permute(x, dims=(1, 0)).
        given = f"_{listed}" if name == listed else listed
        lines.append(f"    {listed} = {given} if {name} is _absent else (*{given}, {name})\n")
    for name in aliased:
        other = NUMPY_NAMES[name]
        default = "_absent" if name in required else f"_default_{name}"
        lines.append(f"    if {other} is not _absent: ")
        lines.append(f"{name} = _one({name}, {other}, {default}, {name!r}, {other!r}, _op)\n")
    if required:
        given = "".join(f"{name}, " for name in required)
        lost = " or ".join(f"{name} is _absent" for name in required)
        lines.append(f"    if {lost}: _missing(_op, {required!r}, ({given}))\n")
    tensors = "".join(f"{name}, " for name in op.tensors)
    attributes = "".join(f"{name}, " for name in op.attributes)
    out = "out" if op.has_out else "None"
    if op.formatted is not None:
        lines.append("    if memory_format is not None: return _formatted(input, memory_format)\n")
    head = "".join(lines)
    tail = f"    return _general(({tensors}), ({attributes}), {out})\n"
    public = define(op, head + tail, names)
    if op.formatted is None:  # users see the types of the declaration, without NumPy's names
        public.__signature__ = LateSignature(op.declared, op.has_out)  # type: ignore[attr-defined]
    op.written = (public, head, tail)
    return public


ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>", "__slots__": ()})()


def _one_of_two(value: Any, other: Any, default: Any, name: str, alias: str, op: Op) -> Any:
    """Return `other`, the argument that was passed under its second name, `alias`.

    Raises  TypeError if the argument was passed under both names
    """
    if value is default:
        return other
    raise TypeError(f"{op.name}() got both {name!r} and {alias!r}, two names of one argument")


def _refuse_missing(op: Op, names: list[str], values: tuple[Any, ...]) -> None:
    missing = [repr(name) for name, value in zip(names, values, strict=True) if value is ABSENT]
    plural = "s" if len(missing) > 1 else ""
    raise TypeError(
        f"{op.name}() missing {len(missing)} required positional argument{plural}: "
        f"{' and '.join(missing)}"
    )


def define(op: Op, source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `public` that `source` defines, renamed to the op's name, with folded
    errors. `names` are its globals.
    """
    names["__name__"] = None  # see fastdist/kernels/cpu/silence.py
    names["_fold"] = fold
    source = folding(source)
    exec(_compiled(source), names)
    public: Any = names["public"]
    public.__code__ = _code_of(names, source, op.name)
    public.__name__ = public.__qualname__ = op.name
    # Not inspect.cleandoc: that would copy each docstring, and `help` removes the indentation
    # anyway.
    public.__doc__, public.__module__ = op.declared.__doc__, "fastdist"
    return public  # type: ignore[no-any-return]


def replace_code(function: Any, source: str, name: str) -> None:
    """Replace the code of a function that `define` made; `source` must have its signature."""
    names, source = dict(function.__globals__), folding(source)
    exec(_compiled(source), names)
    function.__code__ = _code_of(names, source, name)


def folding(source: str) -> str:
    """Return the source of a function with its body in a `try` that folds errors. The first line
    has all parameters. A `try` without an error is free.
    """
    head, *body = source.splitlines()
    failed = ["    except Exception as _error:", "        _fold(_error)", "        raise"]
    return "\n".join([head, "    try:", *[f"    {line}" for line in body], *failed, ""])


def _code_of(names: dict[str, Any], source: str, name: str) -> CodeType:
    """Return the code of `public`, which `source` has defined in `names`, renamed to the op's name.

    Each op has its own code object: a code object caches look-ups of globals, and tracebacks show
    the name and the line numbers of the code object.
    """
    code: CodeType = names["public"].__code__
    file = register_text(name, source, name)
    return code.replace(co_name=name, co_qualname=name, co_filename=file)


@functools.cache
def _compiled(source: str) -> CodeType:
    # Ops with equal signatures share one source. Compiling it for each op would take longer than
    # everything else that an op costs at import.
    return compile(source, "<fastdist op>", "exec")


def finish(op: Op, result: Any, operands: tuple[Any, ...]) -> Any:
    """Return the result of a call; raise TypeError for NotImplemented, which operators return."""
    if result is NotImplemented:
        given = ", ".join(type(operand).__name__ for operand in operands)
        alone = all(isinstance(operand, int | float) for operand in operands)
        wanted = "one Tensor at least; make one with tensor()" if alone else "Tensors or numbers"
        raise TypeError(
            f"{op.called}(): argument types ({given}) are not supported for "
            f"({', '.join(op.tensors)}); expected {wanted}"
        )
    return result


def common_device(op: Op, operands: tuple[Any, ...]) -> Device:
    """Return the device on which the op runs. A 0-d CPU tensor may be combined with tensors of
    another device.

    Raises  DeviceError for tensors on different devices
    """
    layouts = [operand._layout for operand in operands if isinstance(operand, Tensor)]
    bound = {one.device for one in layouts if one.shape or one.device is not CPU}
    if len(bound) > 1:
        refuse_devices(op, operands)
    return bound.pop() if bound else CPU


def refuse_devices(op: Op, operands: tuple[Any, ...]) -> Any:
    """Raise DeviceError for operands on different devices."""
    places = [
        f"{name} on {operand._layout.device}"
        for name, operand in zip(op.tensors, operands, strict=False)
        if isinstance(operand, Tensor)
    ]
    raise DeviceError(
        "Expected all tensors to be on the same device, but found at least two devices: "
        f"{op.called} was given {', '.join(places)}; move one with .to(device)"
    )
