"""Spectral norm as a forward pre-hook; parametrizations.spectral_norm is the newer form."""

from __future__ import annotations

from typing import Any, TypeVar

from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ...core.short_repr import short_repr
from ...graph.modes import no_grad
from ...ops.create.random import randn
from ...tensor.parameter import Parameter
from ...tensor.tensor import Tensor
from .. import functional
from ..convolution import _ConvTransposeNd
from ..module import Module
from ..parameter import is_lazy
from .weight_norm import hooks_of, take_hook

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook that computes weight from weight_orig before each call.

    In training mode, the hook also improves weight_u and weight_v, which estimate the singular
    vectors of weight_orig for the largest singular value.
    """

    # From version 1 on, weight_v is part of the state_dict and weight is not.
    _version = 1

    def __init__(
        self,
        name: str = "weight",
        n_power_iterations: int = 1,
        dim: int = 0,
        eps: float = 1e-12,
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """Return weight as a matrix whose rows are the slices along dim."""
        return weight.movedim(self.dim, 0).flatten(1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return weight_orig divided by its largest singular value."""
        weight: Any = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(functional.normalize(matrix.T.mv(u), dim=0, eps=self.eps))
                    u.copy_(functional.normalize(matrix.mv(v), dim=0, eps=self.eps))
            # Copied, because the backward pass needs these values, and later calls change u and v.
            u, v = u.clone(), v.clone()
        found: Tensor = weight / u.dot(matrix.mv(v))
        return found

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replace a parameter by its normalised value before each call; return the hook.

        Raises  RuntimeError if the parameter has such a hook already; ValueError if the parameter
                is None or not yet initialized
        """
        if any(isinstance(h, SpectralNorm) and h.name == name for h in hooks_of(module)):
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # This sets an ordinary attribute, because the name no longer belongs to a parameter.
        setattr(module, name, weight.detach())
        sizes = hook.reshape_weight_to_matrix(weight.detach()).shape
        for word, n in zip(("_u", "_v"), sizes, strict=True):
            drawn = randn(n, dtype=weight.dtype, device=weight.device)
            module.register_buffer(name + word, functional.normalize(drawn, dim=0, eps=eps))
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_Mark(name))
        module._register_load_state_dict_pre_hook(hook._require_new)
        return hook

    def _require_new(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *_: Any
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.name}.version")
        if version is None and prefix + self.name in state_dict:
            raise NotImplementedError(
                f"spectral_norm: {short_repr(prefix + self.name)} is in a state dict of before "
                "PyTorch 1.0, "
                "whose second vector would have to be solved for; load it into PyTorch and save it "
                "from there"
            )

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, with its current, normalised value."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for word in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + word)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


class _Mark:
    """The hook that writes the version of SpectralNorm into the metadata of a state dict."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, entries: Any, prefix: str, metadata: Any) -> None:
        versions = metadata.setdefault("spectral_norm", {})
        versions[f"{self.name}.version"] = SpectralNorm._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Before each call, divide a weight by an estimate of its largest singular value.

    Source  Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks"
    """
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Remove spectral_norm: the weight becomes an ordinary parameter again.

    Raises  ValueError if module has no spectral norm on a weight of that name
    """
    hook = take_hook(module, SpectralNorm, name)
    if hook is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook.remove(module)
    kinds: Any = module.__dict__["_state_dict_hooks"]
    for hooks in (kinds["post-save-any"], kinds["pre-load-alone"]):
        for number, one in list(hooks.items()):
            mine = isinstance(one, _Mark) and one.name == name
            if mine or getattr(one, "__self__", None) is hook:
                del hooks[number]
    return module


fold_public(__name__)
show_public(__name__)
