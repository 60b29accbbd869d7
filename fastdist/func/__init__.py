"""Derivatives as functions of functions: grad(f), vjp, jvp, jacrev, jacfwd, hessian.

Arguments and results may be tensors or trees of them: lists, tuples, dicts and containers that are
registered with `utils._pytree`. Results have a graph where they depend on tensors that required
grad before. Inside of a function under vmap, tensors are batches: the derivative is taken of the
unbatched tensor, each call of which depends on its own part alone.

A function should not write what follows from its arguments into a tensor from outside of it, as
`captured.mul_(x)` does: PyTorch raises; here, backwards, that tensor keeps the call's graph and
requires grad from then on. To tell it from one that the function made, every tensor would have to
know when it was made: 28 ns at each op, 4 % of an addition of three numbers, for all programs.

reverse.py       grad, vjp, jacrev
forward.py       jvp, linearize, jacfwd, hessian
module_state.py  the state of several modules, stacked for vmap
trees.py         the tensors in arguments and results
"""

from __future__ import annotations

from ..core.missing import explain_missing
from ..namespace.vmap import vmap
from ..nn.utils.stateless import functional_call
from .forward import hessian, jacfwd, jvp, linearize
from .module_state import replace_all_batch_norm_modules_, stack_module_state
from .reverse import grad, grad_and_value, jacrev, vjp

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

explain_missing(__name__)
