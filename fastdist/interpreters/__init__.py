"""Interpreters: code that observes calls of ops, or runs them in another manner.

An interpreter does not know how an op runs. Its method `call` (`interpreter.py` in core) gets the
op, what it is given, and the interpreters that come after it. It returns NOT_TAKEN or a
result, for which it may call the general path of the same op again. Those that are open in a thread
are one tuple, see Note [Interpreters of a thread]; while `modes.tracers` is 0 none is open
anywhere, and calls take their short path. Otherwise the short path still serves most calls on plain
tensors, see Note [The short path and interpreters] in dispatch/call.py; while profiles alone are
open, a text with two clocks, see Note [The short path].

Order of a call: first the `__torch_function__` of modes and arguments (`torch_function.py`), then
`vmap` (`batching.py` for ops with a rule on tensors of `batched_tensor.py`; `batch_loop.py` for the
others, one call after the other), profiles (`timing.py`, with `device_work.py` and `flops.py`),
autocast (`autocast.py`) and recorders (`tracing.py`). The rules for sparse operands are in
`sparse_rules.py`. `observed_methods.py` shows profiles and recorders the Tensor methods that are
not ops.

Ops offer their calls in dispatch/call.py (the public functions first in `op.py`), composites and
in-place twins in dispatch/composite.py. Functions that bypass both call `offer`, or `offer_to_mode`
where they look at their arguments later: in dispatch `inplace.py`, `target.py` and `view.py`, in
ops indexing (`subscript.py`), reshape (`views.py`), cat and stack (`joining.py`) and linear
(`products.py`), in nn `functional.py`, in namespace `activations.py`, in autograd
`differentiate.py`, in tensor `subclasses.py`, and the public `overrides.py`. A new function of this
kind does the same, and asks `active_recorder()` if a trace is to show it;
tests/house/test_glossary.py compares this list with the code.

The terms are explained in docs/glossary.md.
"""
