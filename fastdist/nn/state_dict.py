"""state_dict and load_state_dict: a Module's tensors by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.caller_warning import warn_caller
from ..core.errors import NoDataError
from ..core.folded_frames import folds
from ..graph.modes import no_grad
from ..graph.node import RemovableHandle
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .module_tree import ModuleTree

_EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """The keys that load_state_dict(strict=False) could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        missing, unexpected = self.missing_keys, self.unexpected_keys
        return f"_IncompatibleKeys(missing_keys={missing}, unexpected_keys={unexpected})"


class StateDict(ModuleTree):
    """The base of Module with state_dict and load_state_dict.

    Note    a class that changes the format of its state increments its `_version`. A state dict has
            the versions of all modules in its attribute `_metadata`; `_load_from_state_dict` gets
            the saved version in `local_metadata`
    """

    _version: int = 1

    def get_extra_state(self) -> Any:
        """Return extra state for the state dict; override it together with set_extra_state."""
        raise RuntimeError(f"{type(self).__name__}.get_extra_state() is not there to be called")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that get_extra_state returned."""
        raise RuntimeError(f"{type(self).__name__}.set_extra_state() is not there to be called")

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Return a dict from paths to tensors, for all parameters and persistent buffers.

        The tensors share memory with the module.

        Note    with keep_vars, the entries are the module's tensors themselves, otherwise detached
                tensors. destination, prefix and keep_vars may also be positional arguments, because
                older scripts pass them so
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(
                **{"destination": destination, "prefix": prefix, "keep_vars": keep_vars, **given}
            )
        entries: Any = destination
        if entries is None:
            entries = OrderedDict()
            entries._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(entries, "_metadata"):
            entries._metadata[prefix[:-1]] = metadata
        for hook in self.__state_hooks("pre-save"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(entries, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=entries, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self.__state_hooks("post-save-any"):
            changed = hook(self, entries, prefix, metadata)
            entries = entries if changed is None else changed
        for hook in self.__state_hooks("post-save"):
            if hook(self, entries, prefix, metadata) is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return entries  # type: ignore[no-any-return]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before state_dict collects this module's tensors."""
        return self.__add_state_hook("pre-save", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        # As in older versions of PyTorch, a result of the hook other than None replaces the state
        # dict.
        return self.__add_state_hook("post-save-any", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict has collected the
        tensors of this module and its descendants.

        The hook changes the state dict in place and returns None.
        """
        return self.__add_state_hook("post-save", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs) before a state dict is loaded into this module.

        The hook may change state_dict, which is a copy of the caller's dict, and may append to the
        three lists.
        """
        return self.__add_state_hook("pre-load", hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self.__add_state_hook("pre-load" if with_module else "pre-load-alone", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after a state dict was loaded into this module and
        its descendants.

        The hook may change the lists of keys in place, and returns None.
        """
        return self.__add_state_hook("post-load", hook)

    def __add_state_hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        # The dict is created when the first hook is added, because few modules have hooks.
        hooks = self.__dict__.setdefault("_state_dict_hooks", {}).setdefault(kind, {})
        return RemovableHandle(hooks, hook)

    def __state_hooks(self, kind: str) -> list[Callable[..., Any]]:
        return list(self.__dict__.get("_state_dict_hooks", {}).get(kind, {}).values())

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for name, tensor in self.__own_entries():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self.__has_extra_state():
            destination[prefix + _EXTRA] = self.get_extra_state()

    def __own_entries(self) -> list[tuple[str, Tensor]]:
        persistent = [
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        ]
        entries = [*self._parameters.items(), *persistent]
        return [(name, tensor) for name, tensor in entries if tensor is not None]

    def __has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StateDict.get_extra_state

    @folds
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state dict into this module's tensors; with `assign`, replace the tensors instead.

        Raises  RuntimeError for different shapes and, if strict, for keys that do not match;
                TypeError for a value that is not a mapping
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"Expected state_dict to be dict-like, got {type(state_dict)}: pass what "
                "state_dict() returned"
            )
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        found = IncompatibleKeys(missing, unexpected)
        versions = getattr(state_dict, "_metadata", None) or {}

        def load(module: Any, entries: dict[str, Any], prefix: str) -> None:
            metadata = dict(versions.get(prefix[:-1], {}))
            if assign:
                metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                entries, prefix, metadata, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    part = {key: one for key, one in entries.items() if key.startswith(below)}
                    load(child, part, below)
            for hook in module.__state_hooks("post-load"):
                if hook(module, found) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, dict(state_dict), "")  # hooks may change the copy
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
        return found

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's entries, without its children's entries.

        A class can override this method to read the formats of its older versions. The saved
        version is local_metadata["version"].
        """
        lists = (missing_keys, unexpected_keys, error_msgs)
        for hook in self.__state_hooks("pre-load"):
            hook(self, state_dict, prefix, local_metadata, strict, *lists)
        for hook in self.__state_hooks("pre-load-alone"):
            hook(state_dict, prefix, local_metadata, strict, *lists)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self.__own_entries())
        for name, tensor in own.items():
            if prefix + name in state_dict:
                error = self.__load(name, tensor, prefix + name, state_dict[prefix + name], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(prefix + name)
        known = set(own)
        if self.__has_extra_state():
            known.add(_EXTRA)
            if prefix + _EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + _EXTRA])
            elif strict:
                missing_keys.append(prefix + _EXTRA)
        if strict:
            for key in state_dict:
                name, *below = key[len(prefix) :].split(".", 1)
                is_known = name in (self._modules if below else known)
                if key.startswith(prefix) and not is_known:
                    unexpected_keys.append(key)

    def __load(self, name: str, tensor: Tensor, key: str, given: Any, assign: bool) -> str | None:
        """Load one entry of a state dict into tensor; return an error message, or None."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected fastdist.Tensor but '
                f"received {type(given)}"
            )
        if given._layout.shape == (1,) and not tensor._layout.shape:
            given = given[0]  # PyTorch up to 0.3 saved 0-d tensors this way
        if given._layout.shape != tensor._layout.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        if assign:
            if isinstance(tensor, Parameter):
                if not isinstance(given, Parameter):
                    given = Parameter(given)
                given.requires_grad_(tensor.requires_grad)
            setattr(self, name, given)
        else:
            error = _copy(tensor, key, given)
            if error is not None:
                return error
        return None


def _copy(tensor: Tensor, key: str, given: Tensor) -> str | None:
    """Copy one entry of a state dict into tensor; return an error message, or None."""
    if tensor.is_meta and not given.is_meta:
        warn_caller(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)"
        )
    try:
        with no_grad():
            tensor.copy_(given)
    except NoDataError as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{tensor.size()} and whose dimensions in the checkpoint are {given.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None
