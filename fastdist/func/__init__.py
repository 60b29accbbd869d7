"""Derivatives of functions: grad(f), vjp, jvp, jacrev, jacfwd, hessian.

Arguments and results may be tensors or trees of them: lists, tuples, dicts and containers that are
registered with `utils._pytree`. Results have a graph if they depend on tensors that required grad
before the call. In a function under vmap, tensors are batches; each derivative is taken per entry
of the batch.

A function should not write a value computed from its arguments into a tensor from outside of the
function, as `captured.mul_(x)` does. PyTorch raises an error. Here reverse mode does not detect the
write: the tensor `captured` keeps the call's graph and requires grad from then on. A check would
need a creation stamp on every tensor. The stamp would cost 28 ns per op, 4 % of an addition of
three numbers, for all programs.

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
