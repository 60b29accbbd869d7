"""Reading and replacing the parameters, buffers and submodules of a module by dotted names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.missing import explain_missing
from ...tensor.tensor import Tensor
from ..module import Module

_MISSING = object()


def swap_tensor(
    module: Module, name: str, tensor: Tensor, allow_missing: bool = False
) -> Tensor | None:
    """Put a tensor under a name of a module, and return the one that was there.

    Raises  KeyError for a name with a dot or none; AttributeError for one that is not there
    """
    if not name or "." in name:
        raise KeyError(f'tensor name can\'t be empty or contain "."; got {name!r}')
    tables: list[dict[str, Any]] = [module._parameters, module._buffers]
    for held in tables:
        if name in held:
            known: Tensor | None = held[name]
            held[name] = tensor
            return known
    before = vars(module).get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    object.__setattr__(module, name, tensor)
    return None if before is _MISSING else before


class NamedMemberAccessor:
    """Finds the members of a module by dotted names."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """Return a submodule."""
        return self.module.get_submodule(name) if name else self.module

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put another submodule at a path, and return the one that was there."""
        home, _, name = path.rpartition(".")
        held = self.get_submodule(home)._modules
        before: Any = held[name]
        held[name] = value
        return before  # type: ignore[no-any-return]

    def get_tensor(self, name: str) -> Tensor:
        """Return a parameter or a buffer.

        Raises  AttributeError for a name that is not there
        """
        home, _, own = name.rpartition(".")
        found = getattr(self.get_submodule(home), own)
        if not isinstance(found, Tensor):
            raise TypeError(f"{name}: {found} is not an instance of a tensor")
        return found

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor under a name."""
        self.swap_tensor(name, value, allow_missing=True)

    def del_tensor(self, name: str) -> None:
        """Remove a parameter or a buffer."""
        home, _, own = name.rpartition(".")
        delattr(self.get_submodule(home), own)

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Tensor | None:
        """Put a tensor under a name, and return the one that was there."""
        home, _, own = name.rpartition(".")
        return swap_tensor(self.get_submodule(home), own, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """Return several tensors."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put tensors under names."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """Put tensors under the keys of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def swap_tensors_dict(
        self, named_tensors: dict[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put tensors under the keys of a dict; return those that were there, and missing names."""
        before: dict[str, Any] = {}
        missing = []
        for name, value in named_tensors.items():
            before[name] = self.swap_tensor(name, value, allow_missing)
            if before[name] is None:
                missing.append(name)
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return which names of the module are not among keys, and which keys it does not have."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return the module's named parameters."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return the module's named buffers."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return the module's named parameters and buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """Return the module's named submodules."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)


explain_missing(__name__)
