"""PyTorch's dispatch keys, which programs combine into sets; fastdist does not dispatch by them."""

from __future__ import annotations

import enum

from .refusing import refusing_class

ExcludeDispatchKeyGuard = refusing_class(
    "torch._C", "_ExcludeDispatchKeyGuard", "there is no dispatcher whose keys could be excluded"
)


class DispatchKey(enum.Enum):
    """A kind of kernel: for a device, for its gradients, for autocast, or for several of these."""

    CPU = "CPU"
    CUDA = "CUDA"
    XPU = "XPU"
    Meta = "Meta"
    Autograd = "Autograd"
    AutogradCPU = "AutogradCPU"
    AutogradCUDA = "AutogradCUDA"
    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    BackendSelect = "BackendSelect"
    CompositeExplicitAutograd = "CompositeExplicitAutograd"
    CompositeImplicitAutograd = "CompositeImplicitAutograd"
    Python = "Python"


class DispatchKeySet:
    """A set of dispatch keys.

    Args:
        keys: One key, or an iterable of keys.
    """

    def __init__(self, keys: DispatchKey | frozenset[DispatchKey]) -> None:
        self._keys = frozenset((keys,)) if isinstance(keys, DispatchKey) else keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def has(self, key: DispatchKey) -> bool:
        """Return whether the set contains a key."""
        return key in self._keys
