"""Container modules: Sequential, ModuleList and ModuleDict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from operator import index
from typing import Any, Self, overload

from ..core.folded_frames import fold
from ..core.sequences import finite_list
from .module import Module, describe


class _Numbered(Module):
    """Base of containers whose children are named "0", "1" ... in order."""

    def _name_of(self, number: int) -> str:
        n = len(self._modules)
        number = index(number)
        if not -n <= number < n:
            raise IndexError(f"index {number} is out of range: there are {n} modules")
        return list(self._modules)[number]

    def _put(self, modules: Iterable[Module]) -> None:
        """Replace all children by these modules, numbered from 0."""
        self._modules.clear()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return module in self._modules.values()

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in finite_list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module before the child at index."""
        children = list(self)
        children.insert(index, module)
        self._put(children)
        return self

    def pop(self, key: int) -> Module:
        """Remove a module and return it."""
        children = list(self)
        self._name_of(key)
        module = children.pop(key)
        self._put(children)
        return module

    def __delitem__(self, key: int | slice) -> None:
        children = list(self)
        if not isinstance(key, slice):
            self._name_of(key)
        del children[key]
        self._put(children)


class Sequential(_Numbered):
    """Calls its modules in order, each with the output of the previous one.

    Raises  TypeError if an argument is not a module

    Args:
        *modules: The modules in order, or one OrderedDict of names and modules.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model(torch.randn(3, 4)).shape
        fastdist.Size([3, 2])
        >>> model[1]
        ReLU()
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            named = list(modules[0].items())
        else:
            named = [(str(number), module) for number, module in enumerate(modules)]
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Return the output of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input

    @overload
    def __getitem__(self, key: slice) -> Sequential: ...
    @overload
    def __getitem__(self, key: int) -> Module: ...
    def __getitem__(self, key: int | slice) -> Module:
        try:
            if isinstance(key, slice):
                return self.__class__(OrderedDict(list(self._modules.items())[key]))
            found: Module = self._modules[self._name_of(key)]
            return found
        except Exception as error:
            fold(error)
            raise

    def __setitem__(self, key: int, module: Module) -> None:
        setattr(self, self._name_of(key), module)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)


class ModuleList(_Numbered):
    """A list that registers its modules as children; it cannot be called.

    Raises  TypeError if an item is not a module

    Args:
        modules: The modules in order; None makes an empty list.

    Example:
        >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        >>> len(layers), sum(p.numel() for p in layers.parameters())
        (3, 18)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, key: slice) -> ModuleList: ...
    @overload
    def __getitem__(self, key: int) -> Module: ...
    def __getitem__(self, key: int | slice) -> Module:
        try:
            if isinstance(key, slice):
                return self.__class__(list(self)[key])
            found: Module = self._modules[self._name_of(key)]
            return found
        except Exception as error:
            fold(error)
            raise

    def __setitem__(self, key: int, module: Module) -> None:
        setattr(self, self._name_of(key), module)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        # Consecutive modules with the same repr share one line, to keep many equal layers readable.
        lines = []
        first = 0
        for text, group in groupby(map(repr, self)):
            count = len(list(group))
            last = first + count - 1
            shown = text.replace("\n", "\n  ")
            lines.append(
                f"({first}): {shown}" if count == 1 else f"({first}-{last}): {count} x {shown}"
            )
            first = last + 1
        return describe(self._get_name(), [], lines)


class ModuleDict(Module):
    """A dict that registers its modules as children, in order of insertion; it cannot be called.

    Raises  TypeError if a value is not a module, or a name is not a string; KeyError if a name is
            empty, has a dot, or is the name of an existing attribute

    Args:
        modules: The modules by name; None makes an empty dict.

    Example:
        >>> parts = nn.ModuleDict({"encoder": nn.Linear(4, 2), "decoder": nn.Linear(2, 4)})
        >>> list(parts), parts["encoder"].out_features
        (['encoder', 'decoder'], 2)
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        found: Module = self._modules[key]
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """Return names and modules."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by name; a module replaces an existing one of the same name."""
        named = modules if hasattr(modules, "keys") else finite_list(modules)
        for name, module in dict(named).items():
            self[name] = module
