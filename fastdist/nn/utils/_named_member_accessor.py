"""NamedMemberAccessor: reads and replaces the tensors of a module by dotted name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...core.missing import explain_missing
from ...tensor.tensor import Tensor
from ..module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

# Represents a tensor that a module does not have; with this value, swap_tensor deletes a tensor.
_MISSING: Final[Any] = object()


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Set one of the module's parameters, buffers or tensor attributes."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(
    module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False
) -> Any:
    """Replace one of the module's tensors, and return the old one.

    Raises  AttributeError for a name that the module does not have, unless allow_missing;
            KeyError for a name with dots; TypeError for a value that is neither a tensor nor None
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING:
        _check_tensor(str(tensor), tensor)
    if not name or "." in name:
        raise KeyError(f"the name of a tensor is neither empty nor has it dots, got {name!r}")
    for held in (module._parameters, module._buffers):
        if name in held:
            before = held[name]
            if tensor is _MISSING:
                del held[name]
            else:
                held[name] = tensor  # type: ignore[assignment]
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING:
        _check_tensor(f"attribute `{name}`: {before}", before)
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Replace a child module, and return the old one.

    Raises  AttributeError for a name that the module does not have, KeyError for a name with dots,
            TypeError for a value that is not a module
    """
    for one in (module, submodule):
        if not isinstance(one, Module):
            raise TypeError(f"{one} is not an instance of torch.nn.Module")
    if not name or "." in name:
        raise KeyError(f"the name of a child is neither empty nor has it dots, got {name!r}")
    before = module._modules.get(name)
    if before is None:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    module._modules[name] = submodule
    return before  # type: ignore[no-any-return]


def _check_tensor(what: str, value: Any) -> None:
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{what} is not an instance of torch.Tensor")


class NamedMemberAccessor:
    """Reads and replaces tensors and submodules of a module by dotted name.

    Thread  only one thread at a time, because the methods change the module
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """Return the submodule at a path; the empty path is the module itself."""
        if not name:
            return self.module
        if name not in self.memo:
            path, _, last = name.rpartition(".")
            parent = self.get_submodule(path)
            if not hasattr(parent, last):
                raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
            found = getattr(parent, last)
            if not isinstance(found, Module):
                raise TypeError(
                    f"submodule `{name}`: {found} is not an instance of torch.nn.Module"
                )
            self.memo[name] = found
        return self.memo[name]

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Replace the submodule at a path, and return the old one."""
        above, _, last = path.rpartition(".")
        return swap_submodule(self.get_submodule(above), last, value)

    def get_tensor(self, name: str) -> Any:
        """Return the tensor at a path, or None if that attribute is None."""
        path, _, last = name.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, last):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        found = getattr(module, last)
        _check_tensor(str(found), found)
        return found

    def set_tensor(self, name: str, value: Tensor | None) -> None:
        """Replace the tensor at a path."""
        path, _, last = name.rpartition(".")
        set_tensor(self.get_submodule(path), last, value)

    def del_tensor(self, name: str) -> None:
        """Delete the tensor at a path."""
        path, _, last = name.rpartition(".")
        swap_tensor(self.get_submodule(path), last, _MISSING)

    def swap_tensor(self, name: str, value: Tensor | None, allow_missing: bool = False) -> Any:
        """Replace the tensor at a path, and return the old one."""
        path, _, last = name.rpartition(".")
        return swap_tensor(self.get_submodule(path), last, value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return the tensors at the paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor | None]) -> None:
        """Replace the tensors at the paths.

        Raises  ValueError if the numbers of names and values differ
        """
        for name, value in _pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """Replace the tensors at the paths that are the keys of named_tensors."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Delete the tensors at the paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self,
        names: Iterable[str],
        values: Iterable[Tensor | None],
        allow_missing: bool = False,
    ) -> list[Any]:
        """Replace the tensors at the paths, and return the old ones."""
        return [
            self.swap_tensor(name, value, allow_missing) for name, value in _pairs(names, values)
        ]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Replace tensors by path; return the old tensors, and the paths that did not exist.

        If this method raises, the module has its old tensors.

        Raises  RuntimeError for missing paths, unless allow_missing
        """
        before: dict[str, Any] = {}
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
            missing = [name for name, value in before.items() if value is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the tensors' paths that keys lacks, and the keys that are not such paths."""
        given, found = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(found - given), sorted(given - found)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return pairs of path and parameter."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return pairs of path and buffer."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Return pairs of path and tensor: all parameters, then all buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """Return pairs of path and module, for the module and all its descendants."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)


def _pairs(names: Iterable[str], values: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return zip(list(names), list(values), strict=True)


explain_missing(__name__)
