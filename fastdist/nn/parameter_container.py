"""Modules that contain parameters: ParameterList and ParameterDict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from operator import index
from typing import Any, Self, overload

from ..core.dtypes import WORDS
from ..core.folded_frames import fold
from ..core.sequences import finite_list
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .module import Module


def _as_entry(value: Any) -> Any:
    return (
        Parameter(value)
        if isinstance(value, Tensor) and not isinstance(value, Parameter)
        else value
    )


def _described(name: object, value: Any, *, by_class: bool) -> str:
    """Return the line of a repr that describes one entry."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = f"fastdist.{WORDS[value.dtype]}Tensor" if by_class else value.dtype
    return f"  ({name}): {what} containing: [{kind} of size {size}{device}]"


class ParameterList(Module):
    """A list that registers parameters. Tensors become Parameters; other values stay unchanged."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name_of(self, number: int) -> str:
        number = index(number)
        if not -self._size <= number < self._size:
            raise IndexError(f"index {number} is out of range: there are {self._size} parameters")
        return str(number % self._size)

    @overload
    def __getitem__(self, key: slice) -> ParameterList: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    def __getitem__(self, key: int | slice) -> Any:
        try:
            if isinstance(key, slice):
                return self.__class__(list(self)[key])
            return getattr(self, self._name_of(key))
        except Exception as error:
            fold(error)
            raise

    def __setitem__(self, key: int, value: Any) -> None:
        setattr(self, self._name_of(key), _as_entry(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in finite_list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return a line for each entry."""
        return "\n".join([_described(i, value, by_class=False) for i, value in enumerate(self)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict that registers parameters. Tensors become Parameters; other values stay unchanged."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _require_text(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[_require_text(key)] = None
        setattr(self, key, _as_entry(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another ParameterDict with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the entry at key; if there is none, set it to default first."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove the entry at key and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return its name and value."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the entry at key, or default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a ParameterDict with default at each key."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names and parameters."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """Return the parameters."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add parameters from a mapping or from pairs of name and value.

        The entries of a plain dict are added in the order of their names.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but "
                f"got {type(parameters).__name__}"
            )
        pairs: Any = parameters
        if isinstance(parameters, OrderedDict | ParameterDict):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        for number, pair in enumerate(finite_list(pairs)):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ParameterDict update sequence element #{number} should be Iterable; is"
                    f"{type(pair).__name__}"
                )
            entry = tuple(pair)
            if len(entry) != 2:
                raise ValueError(
                    f"ParameterDict update sequence element #{number} has length {len(entry)}; "
                    "2 is required"
                )
            self[entry[0]] = entry[1]

    def extra_repr(self) -> str:
        """Return a line for each entry."""
        return "\n".join([_described(key, value, by_class=True) for key, value in self.items()])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> ParameterDict:
        made = ParameterDict(other)
        made.update(self)
        return made

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]
        self.update(other)
        return self


def _require_text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}')"
        )
    return key
