"""The module `functorch` in processes where fastdist replaces PyTorch."""

from __future__ import annotations

from ..core.missing import explain_missing
from ..core.version import TORCH_VERSION as __version__
from ..func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from .make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "__version__",
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]

explain_missing(__name__)
