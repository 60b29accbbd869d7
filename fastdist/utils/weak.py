"""Dictionaries with weak keys that are compared by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from ..core.missing import explain_missing

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals other ones to the same object; objects compare by identity."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, WeakIdRef) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary with weak keys that are compared by identity."""

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: Any = {}
        if dict is not None:
            self.update(dict)

    def _reference(self, key: Any, callback: Any = None) -> WeakIdRef:
        return self.ref_type(key, callback)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self._reference(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        data = self.data
        self.data[self._reference(key, lambda reference: data.pop(reference, None))] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self._reference(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self._reference(key) in self.data
        except TypeError:
            return False

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: calling it returns the tensor, or None after it is freed."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


explain_missing(__name__)
