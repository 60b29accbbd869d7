"""Immutable lists and dicts for a Node's arguments: only assignment to the Node changes them."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.missing import explain_missing
from ..tensor.pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        f"'{type(self).__name__}' object does not support mutation: it is an argument of a Node; "
        "make a new one and assign it to the node, as in node.args = (new, *node.args[1:])"
    )


class immutable_list(list[Any]):
    """A list whose mutating methods raise errors."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)


class immutable_dict(dict[Any, Any]):
    """A dict whose mutating methods raise errors."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


register_pytree_node(
    immutable_list,
    lambda found: (list(found), None),
    lambda parts, _: immutable_list(parts),
)
register_pytree_node(
    immutable_dict,
    lambda found: (list(found.values()), list(found)),
    lambda parts, keys: immutable_dict(zip(keys, parts, strict=True)),
)

explain_missing(__name__)
