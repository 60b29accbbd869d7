"""Registration of container classes, and specs as text in PyTorch's format."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ..core.caller_warning import warn_caller
from ..tensor import pytree
from ..tensor.layout import Size
from ..tensor.pytree import NAMED, LeafSpec, NodeDef, TreeSpec
from ._pytree_keys import GetAttrKey

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL: Final = 1
NO_SERIALIZED_TYPE_NAME_FOUND: Final = "NO_SERIALIZED_TYPE_NAME_FOUND"
CONSTANT_NODES: set[type] = set()


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None = None
    from_dumpable_context: Callable[[Any], Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of a registered constant: the object itself."""

    value: Any


def _path_of(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _defaultdict_serialize(context: Any) -> Any:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumped: Any) -> Any:
    factory = _find(f"{dumped['default_factory_module']}.{dumped['default_factory_name']}")
    return [factory, dumped["dict_context"]]


def _namedtuple_serialize(context: Any) -> str:
    found = SUPPORTED_SERIALIZED_TYPES.get(context)
    if found is None or found.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`."
        )
    return found.serialized_type_name


def _namedtuple_deserialize(dumped: str) -> Any:
    if dumped not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumped} because we couldn't find a "
            "serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumped]


SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {
    node.typ: node
    for node in (
        _SerializeNodeDef(tuple, "builtins.tuple"),
        _SerializeNodeDef(list, "builtins.list"),
        _SerializeNodeDef(dict, "builtins.dict"),
        _SerializeNodeDef(Size, "torch.Size"),
        _SerializeNodeDef(OrderedDict, "collections.OrderedDict"),
        _SerializeNodeDef(deque, "collections.deque"),
        _SerializeNodeDef(
            defaultdict,
            "collections.defaultdict",
            _defaultdict_serialize,
            _defaultdict_deserialize,
        ),
        _SerializeNodeDef(
            NAMED,
            "collections.namedtuple",
            _namedtuple_serialize,
            _namedtuple_deserialize,
        ),
    )
}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {
    node.serialized_type_name: kind for kind, node in SUPPORTED_SERIALIZED_TYPES.items()
}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], Any],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Register a container class.

    Args:
        cls: The class. Instances of a subclass are leaves unless the subclass is registered too.
        flatten_fn: Returns the children of a container, and a context.
        unflatten_fn: Builds a container from its children and the context.
        serialized_type_name: The name of the class in the text of a spec.
        to_dumpable_context: Converts a context to a value for JSON.
        from_dumpable_context: Converts such a value back to a context.
        flatten_with_keys_fn: Returns pairs of key and child, and a context.

    Raises  ValueError for a class that is registered already
    """
    if cls in pytree.SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], Any],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    if cls in pytree.SUPPORTED_NODES:
        warn_caller(
            f"{cls} is already registered as pytree node. Overwriting the previous registration."
        )
    name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    node = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    pytree.SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = node
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], Any],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **options: Any,
) -> None:
    """Register a class, even if it is registered already. PyTorch deprecates this function."""
    warn_caller(
        "`utils._pytree._register_pytree_node` is deprecated. Please use "
        "`utils._pytree.register_pytree_node` instead.",
        FutureWarning,
    )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type) -> None:
    """Unregister a class. Instances of the class are leaves again."""
    del pytree.SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(name, None)
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Set the name by which the text of specs refers to a namedtuple class."""
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Register a dataclass, or another class whose __init__ takes its fields as keywords.

    Args:
        cls: The class.
        field_names: The attributes that are children; None means all fields of a dataclass.
        drop_field_names: Fields of a dataclass that are not children.
        serialized_type_name: The name of the class in the text of a spec.

    Raises  ValueError if the names are not all fields of a dataclass, or if field_names is None for
            another class
    Note    an attribute whose value is None is not a child
    """
    names = _fields_of(cls, field_names, drop_field_names or [])

    def flatten(obj: Any) -> Any:
        values = {name: getattr(obj, name) for name in names}
        full = [name for name in names if values[name] is not None]
        return [values[name] for name in full], [full, [n for n in names if values[n] is None]]

    def unflatten(parts: Iterable[Any], context: Any) -> Any:
        full, empty = context
        return cls(**dict(zip(full, parts, strict=True)), **dict.fromkeys(empty))

    def flatten_with_keys(obj: Any) -> Any:
        parts, context = flatten(obj)
        return [(GetAttrKey(n), p) for n, p in zip(context[0], parts, strict=True)], context

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def _fields_of(cls: type, names: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return names
    own = [field.name for field in dataclasses.fields(cls) if field.init]
    if names is None:
        return own
    missing = set(own) - set(dropped) - set(names)
    unexpected = set(names) - (set(own) - set(dropped))
    if missing or unexpected:
        raise ValueError(
            "field_names does not include all dataclass fields.\n"
            + (f"Missing fields in `field_names`: {missing}. " if missing else "")
            + (f"Unexpected fields in `field_names`: {unexpected}. " if unexpected else "")
            + "Add fields to `field_names`, or to `drop_field_names` to leave them out."
        )
    return names


def register_constant(cls: type) -> None:
    """Register a class whose instances are constants in the spec: they have no leaves.

    Raises  TypeError for a class that compares or hashes by identity
    """
    for name in ("__eq__", "__hash__"):
        if getattr(cls, name) in (None, getattr(object, name)):
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{name}` "
                "implementation."
            )

    def flatten(x: Any) -> Any:
        return [], ConstantNode(x)

    _private_register_pytree_node(
        cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Return whether register_constant was called for a class."""
    return cls in CONSTANT_NODES


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a spec as text, which PyTorch's treespec_loads can read too.

    Raises  NotImplementedError for a class without a serialized name; ValueError for a protocol
            that is not 1; TypeError for an object that is not a TreeSpec
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _require_protocol(protocol)
    return json.dumps((protocol, _dumped(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the spec from the text of treespec_dumps.

    Raises  NotImplementedError for a class that is not registered; ValueError for another protocol
    """
    protocol, schema = json.loads(serialized)
    _require_protocol(protocol)
    return _loaded(schema)


def _require_protocol(protocol: Any) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    kind = spec.type if spec.type in pytree.SUPPORTED_NODES else NAMED
    node = SUPPORTED_SERIALIZED_TYPES.get(kind)
    if node is None or node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if node.to_dumpable_context is None:
        try:
            context: Any = json.dumps(spec.context)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register "
                "a custom serializer using register_pytree_node."
            ) from error
    else:
        context = node.to_dumpable_context(spec.context)
    below = [_dumped(child) for child in spec.children_specs]
    return {"type": node.serialized_type_name, "context": context, "children_spec": below}


def _loaded(schema: dict[str, Any]) -> TreeSpec:
    name, dumped = schema["type"], schema["context"]
    if name is None and dumped is None and not schema["children_spec"]:
        return LeafSpec()
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    read = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context or json.loads
    context = read(dumped)
    below = [_loaded(child) for child in schema["children_spec"]]
    return TreeSpec(context if kind is NAMED else kind, context, below)
