"""Pruning of parameters by masks: weight = weight_orig * weight_mask before each call.

A new pruning method subclasses BasePruningMethod and defines compute_mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ...core.sequences import finite_list
from ...graph.modes import no_grad
from ...ops.create.creation import ones_like, zeros_like
from ...ops.create.random import rand, rand_like
from ...tensor.tensor import Tensor
from ..module import Module
from .convert_parameters import parameters_to_vector
from .weight_norm import hooks_of

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """Base of pruning methods, which select entries of a tensor; an instance is a module's hook.

    Note    on a tensor that is already pruned, PRUNING_TYPE limits the entries that this method may
            prune: "unstructured" (all entries with mask 1), "structured" (all slices along `dim`
            whose mask is not 0) or "global" (all entries)
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask with additional zeros, chosen by the importance scores t."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the module's tensor times its mask."""
        mask: Any = getattr(module, f"{self._tensor_name}_mask")
        original: Any = getattr(module, f"{self._tensor_name}_orig")
        found: Tensor = mask.to(dtype=original.dtype) * original
        return found

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune module's parameter, in addition to earlier pruning; return the hook.

        Raises  AssertionError if importance_scores has another shape than the parameter
        """
        before = _taken(module, name)
        added = cls(*args, **kwargs)
        added._tensor_name = name
        tensor: Any = getattr(module, name)
        method = added if before is None else _contained(before, added)
        try:
            scores = _scores(tensor, importance_scores, f"parameter {name} of {module}")
            if before is None:
                mask = ones_like(tensor, requires_grad=False)
            else:
                mask = getattr(module, f"{name}_mask").detach().clone()
            with no_grad():
                mask = method.compute_mask(scores, default_mask=mask)
        except Exception:
            if before is not None:
                module.register_forward_pre_hook(before)
            raise
        if before is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", tensor)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return t times the mask that this method computes; no module changes."""
        scores = _scores(t, importance_scores, "tensor t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the tensor an ordinary parameter again, with its current, pruned value."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if name in module.__dict__:
            delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = weight.detach()
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several pruning methods on one tensor, each of which adds zeros to the mask."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method, which is applied last.

        Raises  TypeError for a value that is not a BasePruningMethod; ValueError for a method that
                prunes another tensor
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Tensor:
        """Return default_mask with additional zeros, chosen by the last method."""
        method: Any = self._pruning_methods[-1]
        left = _left(method, t, default_mask)
        mask: Any = default_mask.to(dtype=t.dtype).clone()
        part = method.compute_mask(t[left], default_mask=default_mask[left])
        mask[left] = part.to(dtype=mask.dtype)
        return mask  # type: ignore[no-any-return]


def _left(method: Any, t: Any, mask: Any) -> Any:
    """Return the index that selects the entries which a method may prune, given the mask."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return ...
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    others = [axis for axis in range(t.dim()) if axis != dim]
    kept = mask.sum(dim=others) != 0
    return (*[slice(None)] * dim, kept)


def _taken(module: Module, name: str) -> BasePruningMethod | None:
    """Remove the pruning method of a tensor from module's hooks; return the method, or None."""
    for number, entry in list(module._forward_pre_hooks.items()):
        if isinstance(entry.call, BasePruningMethod) and entry.call._tensor_name == name:
            del module._forward_pre_hooks[number]
            return entry.call
    return None


def _contained(before: BasePruningMethod, added: BasePruningMethod) -> PruningContainer:
    methods = before if isinstance(before, PruningContainer) else (before,)
    made = PruningContainer.__new__(PruningContainer)
    made._tensor_name = added._tensor_name
    made._pruning_methods = (*methods, added)
    return made


def _scores(t: Any, given: Any, what: str) -> Any:
    if given is not None and given.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {given.shape} vs "
            f"{t.shape}"
        )
    return (t if given is None else given).detach()


class Identity(BasePruningMethod):
    """Prunes nothing, but adds a mask of ones to the module."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask."""
        return default_mask


class _Amount(BasePruningMethod):
    """Base of methods that prune a number of entries or slices, or a fraction of them."""

    amount: float

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        most = float("inf") if isinstance(amount, Integral) else 1.0
        if not 0 <= amount <= most:
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount = amount

    def _count(self, of: int) -> int:
        count = int(self.amount) if isinstance(self.amount, Integral) else round(self.amount * of)
        if count > of:
            raise ValueError(
                f"amount={count} should be smaller than the number of parameters to prune={of}"
            )
        return count


class _Unstructured(_Amount):
    def compute_mask(self, t: Any, default_mask: Any) -> Tensor:
        """Return default_mask with zeros at the entries of least importance."""
        count = self._count(t.numel())
        mask = default_mask.clone().reshape(-1)
        if count:
            mask[self._importance(t).reshape(-1).topk(count, largest=False).indices] = 0
        return mask.reshape(t.shape)  # type: ignore[no-any-return]

    def _importance(self, t: Any) -> Any:
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes random entries."""

    def _importance(self, t: Any) -> Any:
        return rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the entries of smallest absolute value."""

    def _importance(self, t: Any) -> Any:
        return t.abs()


class _Structured(_Amount):
    PRUNING_TYPE = "structured"
    dim: int

    def compute_mask(self, t: Any, default_mask: Any) -> Tensor:
        """Return default_mask with zeros in the least important slices along dim.

        Raises  ValueError if t has fewer than two axes, IndexError if dim is out of range
        """
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask  # type: ignore[no-any-return]
        kept = self._importance(t).topk(size - count).indices
        axis = self.dim % t.dim()
        mask: Any = zeros_like(t)
        mask[(*[slice(None)] * axis, kept)] = 1
        return mask * default_mask.to(dtype=mask.dtype)  # type: ignore[no-any-return]

    def _importance(self, t: Any) -> Any:
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes random slices along dim."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _importance(self, t: Any) -> Any:
        return rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices along dim whose n-norm is smallest."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _importance(self, t: Any) -> Any:
        others = [axis for axis in range(t.dim()) if axis != self.dim % t.dim()]
        return t.norm(p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prunes the entries where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask times the given mask."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Add a mask of ones to a parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune a number (int) or a fraction (float) of a parameter's entries at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the entries of smallest absolute value: a number (int) or a fraction (float)."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune a number (int) or a fraction (float) of a parameter's slices along dim at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices along dim of smallest n-norm: a number (int) or a fraction (float)."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the entries of a parameter where mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters together, as if they were one tensor.

    Raises  TypeError for a method whose PRUNING_TYPE is not "unstructured"
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    places = finite_list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "of all"
    with no_grad():
        tensors: list[Any] = [getattr(module, name) for module, name in places]
        scores = [given.get(place, t) for place, t in zip(places, tensors, strict=True)]
        masks = [
            getattr(module, f"{name}_mask", ones_like(t))
            for (module, name), t in zip(places, tensors, strict=True)
        ]
        container = PruningContainer(method)
        whole: Any = container.compute_mask(
            parameters_to_vector(scores), parameters_to_vector(masks)
        )
    first = 0
    for (module, name), t in zip(places, tensors, strict=True):
        custom_from_mask(module, name, whole[first : first + t.numel()].reshape(t.shape))
        first += t.numel()


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with zeros at the pruned entries.

    Raises  ValueError if the parameter is not pruned
    """
    hook = _taken(module, name)
    if hook is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    hook.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Return whether module or any of its descendants has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod) for one in module.modules() for hook in hooks_of(one)
    )


fold_public(__name__)
show_public(__name__)
