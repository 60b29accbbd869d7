"""Saving a Module's tensors by name, and loading them back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..graph.modes import no_grad
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .module_tree import ModuleTree

_EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What load_state_dict(strict=False) could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        missing, unexpected = self.missing_keys, self.unexpected_keys
        return f"_IncompatibleKeys(missing_keys={missing}, unexpected_keys={unexpected})"


class StateDict(ModuleTree):
    """The part of Module that saves and loads."""

    def get_extra_state(self) -> Any:
        """Return what else belongs into the state dict; to be overridden along with
        set_extra_state.
        """
        raise RuntimeError(f"{type(self).__name__}.get_extra_state() is not there to be called")

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state returned."""
        raise RuntimeError(f"{type(self).__name__}.set_extra_state() is not there to be called")

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Return path -> tensor of all parameters and persistent buffers, which share memory with
        the module's.

        Note    keep_vars returns the parameters themselves; else tensors outside of any graph;
                destination, prefix and keep_vars may be given in this order, as in older scripts
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(
                **{"destination": destination, "prefix": prefix, "keep_vars": keep_vars, **given}
            )
        entries: dict[str, Any] = OrderedDict() if destination is None else destination
        self._save_to_state_dict(entries, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=entries, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        return entries

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for name, tensor in self._own_entries():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_entries(self) -> list[tuple[str, Tensor]]:
        persistent = [
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        ]
        entries = [*self._parameters.items(), *persistent]
        return [(name, tensor) for name, tensor in entries if tensor is not None]

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StateDict.get_extra_state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Write a state dict into this module's tensors, or with assign put its tensors in their
        place.

        Raises  RuntimeError for shapes that differ and, if strict, for keys that do not match;
                TypeError for what is no mapping
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"Expected state_dict to be dict-like, got {type(state_dict)}: pass what "
                "state_dict() returned"
            )
        loading = Loading(state_dict, assign)
        for path, module in self.named_modules(remove_duplicate=False):
            module._load_from_state_dict(loading, f"{path}." if path else "")
        missing = [key for key in loading.wanted if key not in state_dict]
        unexpected = [key for key in state_dict if key not in loading.wanted]
        errors = loading.errors
        if strict:
            for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    shown = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{kind} key(s) in state_dict: {shown}. ")
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}"
            )
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(self, loading: Loading, prefix: str) -> None:
        for name, tensor in self._own_entries():
            key = prefix + name
            loading.wanted[key] = None
            if key in loading.entries:
                self._load(name, key, tensor, loading)
        if self._has_extra_state():
            loading.wanted[prefix + _EXTRA] = None
            if prefix + _EXTRA in loading.entries:
                self.set_extra_state(loading.entries[prefix + _EXTRA])

    def _load(self, name: str, key: str, tensor: Tensor, loading: Loading) -> None:
        given = loading.entries[key]
        if not isinstance(given, Tensor):
            loading.errors.append(
                f'While copying the parameter named "{key}", expected fastdist.Tensor but '
                f"received {type(given)}"
            )
            return
        if given.layout.shape == (1,) and not tensor.layout.shape:
            given = given[0]  # PyTorch's saved lone numbers so, up to 0.3
        if given.layout.shape != tensor.layout.shape:
            loading.errors.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        elif loading.assign:
            if isinstance(tensor, Parameter):
                if not isinstance(given, Parameter):
                    given = Parameter(given)
                given.requires_grad_(tensor.requires_grad)
            setattr(self, name, given)
        else:
            with no_grad():
                tensor.copy_(given)


class Loading:
    """One load_state_dict: what is given, what was asked for, what went wrong."""

    def __init__(self, entries: Mapping[str, Any], assign: bool) -> None:
        self.entries = entries
        self.assign = assign
        self.wanted: dict[str, None] = {}  # keys, in the module's order
        self.errors: list[str] = []
