"""Operators that a program defines: `custom_op`, `define`, `impl`, and the registration functions.

An operator is called as `torch.ops.NAMESPACE.NAME`. The device of its tensors selects the kernel.
The function passed to `register_autograd` computes its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._ops import OpOverload, OpOverloadPacket, ops
from .autograd.function import Function
from .core.folded_frames import fold_methods, fold_public, folds
from .core.missing import explain_missing, refusing
from .graph.modes import is_grad_enabled, no_grad
from .op_schemas import Schema, infer_schema, parse_schema, split_name
from .tensor.pytree import tree_leaves
from .tensor.tensor import Tensor

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op",
    "wrap_triton",
]  # fmt: skip

_ANY = "any"
_DIRECT = "direct"
_NO_DISPATCHER = "there is no dispatcher: write a function of tensors"
get_ctx = refusing(__name__, "get_ctx", "sizes do not depend on data where nothing is compiled")
opcheck = refusing(__name__, "opcheck", "it tests an operator in graphs, which are not captured")
triton_op = refusing(__name__, "triton_op", "Triton is not used: custom_op takes any function")
wrap_triton = refusing(__name__, "wrap_triton", "Triton is not used")
register_torch_dispatch = refusing(__name__, "register_torch_dispatch", _NO_DISPATCHER)
register_autocast = refusing(__name__, "register_autocast", _NO_DISPATCHER)

_Backward = Callable[..., Any]
_defined: dict[str, CustomOpDef] = {}
# Registrations for operators that are not defined yet: a package may lack the C++ library that
# would define them.
_undefined: dict[str, CustomOpDef] = {}


def fallthrough_kernel() -> None:
    """Pass this function to `Library.impl` to mark a dispatch key as one without a kernel."""


class CustomOpDef:
    """An operator that a program defines: call it, and register kernels and derivatives on it.

    Args:
        name: "namespace::name", optionally with ".overload".
        schema: The parameters and results of the operator.
        mutates: Whether the operator changes an argument in place.
    """

    def __init__(self, name: str, schema: Schema, mutates: bool) -> None:
        self._qualname = name
        self._namespace, self._name, self._overload = split_name(name)
        self._schema = schema
        self._mutates = mutates
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: _Backward | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._function: type[Function] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._schema.bind(args, kwargs)
        kernel = self._kernels.get("autograd") or self._kernels.get(_DIRECT)
        if kernel is not None:
            return self._schema.call(kernel, values)
        if self._mutates or not self._is_recorded(values):
            return self._compute(values)
        if self._function is None:
            self._function = _function_of(self)
        return self._function.apply(*values)

    def _is_recorded(self, values: tuple[Any, ...]) -> bool:
        if self._vmap is not None:
            return True
        if not is_grad_enabled():
            return False
        listed = [one for one in values if isinstance(one, (list, tuple))]
        if any(isinstance(one, Tensor) and one.requires_grad for one in tree_leaves(listed)):
            raise NotImplementedError(
                f"{self._qualname}: the gradient of a list of tensors is not supported; pass the "
                "tensors as separate arguments"
            )
        return any(isinstance(one, Tensor) and one.requires_grad for one in values)

    def _compute(self, values: tuple[Any, ...]) -> Any:
        """Return the result of the kernel for the tensors' device, without recording a graph."""
        device = next((t.device.type for t in tree_leaves(values) if isinstance(t, Tensor)), "cpu")
        kernel = self._kernels.get(device) or (self._fake if device == "meta" else None)
        kernel = kernel or self._kernels.get(_ANY)
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{device.upper()}' "
                f"backend: it has kernels for {sorted(self._kernels) or 'no device'}"
            )
        with no_grad():
            return self._schema.call(kernel, values)

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Register the kernel for some devices; None means all devices.

        Returns:
            The function, or a decorator if no function is given.
        """
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        for device in _listed(device_types):
            self._kernels[device] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the function that computes results' shapes and dtypes, for the meta device."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: _Backward, /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register the function that computes gradients.

        Args:
            backward: Takes the context and the gradients of the results. Returns one gradient for
                each argument, or None if the argument has no gradient.
            setup_context: Takes the context, and the keywords `inputs` and `output`. Saves what
                backward needs in the context.
        """
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register the rule for vmap. The rule takes `info, in_dims, *args`, and returns the result
        and the result's batch dimension.
        """
        if func is None:
            return self.register_vmap
        self._vmap, self._function = func, None
        return func

    @property
    def _opoverload(self) -> OpOverload:
        packet: OpOverloadPacket = getattr(getattr(ops, self._namespace), self._name)
        overload: OpOverload = getattr(packet, self._overload)
        return overload

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _function_of(operator: CustomOpDef) -> type[Function]:
    """Return the autograd.Function that runs an operator's kernel and its backward."""
    schema = operator._schema

    def forward(*values: Any) -> Any:
        return operator._compute(values)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if operator._setup_context is not None:
            named = schema.split(inputs)
            more = {"keyword_only_inputs": named[1]} if named[1] else {}
            operator._setup_context(ctx, inputs=named[0], output=output, **more)

    def backward(ctx: Any, *grads: Any) -> Any:
        if operator._backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator._opoverload} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        found = operator._backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return found + (None,) * (len(schema.names) - len(found))

    members: dict[str, Any] = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
    }
    if operator._vmap is not None:
        members["vmap"] = staticmethod(operator._vmap)
    return type(f"{operator._namespace}_{operator._name}", (Function,), members)


def _listed(device_types: str | Sequence[str] | None) -> list[str]:
    if device_types is None:
        return [_ANY]
    listed = [device_types] if isinstance(device_types, str) else [*device_types]
    return [_ANY if one == "default" else one for one in listed]


def _add(operator: CustomOpDef) -> CustomOpDef:
    """Add an operator to `torch.ops`; it replaces an earlier operator of the same name."""
    earlier = _undefined.pop(operator._qualname, None)
    if earlier is not None:
        operator._kernels = {**earlier._kernels, **operator._kernels}
        operator._fake, operator._vmap = earlier._fake, earlier._vmap
        operator._backward, operator._setup_context = earlier._backward, earlier._setup_context
    _defined[operator._qualname] = operator
    namespace = vars(getattr(ops, operator._namespace))
    overloads = {
        one._overload: one
        for one in _defined.values()
        if (one._namespace, one._name) == (operator._namespace, operator._name)
    }
    first = next(iter(overloads.values()))

    def function(overload: str) -> Callable[..., Any]:
        return overloads.get(overload, first)

    namespace[operator._name] = OpOverloadPacket(
        operator._namespace, operator._name, function, [*overloads]
    )
    return operator


def _find(op: Any, purpose: str) -> CustomOpDef:
    """Return the operator for a name, an OpOverload or a CustomOpDef.

    For a name that is not defined, return an operator that collects registrations until it is
    defined.
    """
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op
    if not isinstance(name, str):
        raise ValueError(f"{purpose}({op}): got unexpected type for op: {type(op)}")
    name = name.removesuffix(".default")
    if name in _defined:
        return _defined[name]
    if name not in _undefined:
        _undefined[name] = CustomOpDef(name, parse_schema("() -> ()"), mutates=False)
    return _undefined[name]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Define an operator by a function, as a call or as a decorator.

    Args:
        name: "namespace::name".
        fn: The function; its parameters and result must be annotated.
        mutates_args: The names of arguments that `fn` changes in place; () if it changes none.
        device_types: The devices for which the function is the kernel; None means all devices.
        schema: The parameters and the result as text, such as "(Tensor x) -> Tensor".
        tags: Ignored.

    Returns:
        A CustomOpDef.
    """

    @folds
    def make(fn: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        operator = CustomOpDef(name, parse_schema(text), bool(mutates_args))
        operator.register_kernel(device_types, fn)
        return _add(operator)

    return make if fn is None else make(fn)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define an operator without kernels; `impl` registers them.

    Raises  ValueError if the name has no namespace

    Args:
        qualname: "namespace::name".
        schema: The parameters and the result as text, such as "(Tensor x) -> Tensor".
        lib: Ignored.
        tags: Ignored.
    """
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): qualname is a string, got {type(qualname)}")
    parsed = parse_schema(schema)
    _add(CustomOpDef(qualname, parsed, parsed.mutates))


def impl(
    qualname: str,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Register a kernel of an operator for devices such as "cpu", or "default" for all.

    Returns:
        None, or a decorator if no function is given.
    """
    _find(qualname, "impl")
    if func is None:

        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            impl(qualname, types, fn)
            return fn

        return decorate
    kernel_of = {"CompositeImplicitAutograd": _DIRECT, "CompositeExplicitAutograd": _ANY}
    for kind in _listed(types):
        _find(qualname, "impl")._kernels[kernel_of.get(kind, _device_of_key(kind))] = func
    return None


def _device_of_key(key: str) -> str:
    """Return the device, or "autograd", of a dispatch key such as "CPU"."""
    if key.startswith("Autograd"):
        return "autograd"
    return _ANY if key == "" else key.lower()


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Register the kernel of an operator for some devices; None means all devices."""
    return _find(op, "register_kernel").register_kernel(device_types, func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Register the function that computes the results' shapes and dtypes for the meta device.

    The operator may be defined later or never: packages register such functions even if their C++
    library, which would define the operator, is absent.

    Returns:
        The function, or a decorator if no function is given.
    """
    if func is None:
        return lambda func: register_fake(op, func)
    return _find(op, "register_fake").register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any,
    backward: _Backward,
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register the gradient of an operator: see CustomOpDef.register_autograd."""
    _find(op, "register_autograd").register_autograd(backward, setup_context=setup_context)


def register_vmap(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Register the vmap rule of an operator: see CustomOpDef.register_vmap."""
    return _find(op, "register_vmap").register_vmap(func)


@fold_methods
class Library:
    """A namespace to which a program adds operators.

    Args:
        ns: The namespace.
        kind: "DEF" for a new namespace, "FRAGMENT" to add operators, "IMPL" to add kernels.
        dispatch_key: The default key of the library's kernels, such as "CPU"; "" for all devices.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind}")
        if kind == "DEF" and ns in ("aten", "prim", "prims"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating another one.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its name and schema, such as "f(Tensor x) -> Tensor".

        Returns:
            The operator's name.
        """
        name, _, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", f"({rest}")
        return name.strip()

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel of an operator for a dispatch key; the default is the library's key."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        name = op_name if isinstance(op_name, str) else op_name.name().partition("::")[2]
        name = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key
        if fn is not fallthrough_kernel:
            impl(name, key or "CompositeImplicitAutograd", fn)

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Raise an error: fastdist has no dispatcher that could call a fallback."""
        raise NotImplementedError(f"Library.fallback: {_NO_DISPATCHER}")


fold_public(__name__)
explain_missing(__name__)
