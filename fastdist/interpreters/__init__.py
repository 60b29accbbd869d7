"""Interpreters: code that observes calls of ops, or runs them in another manner.

An interpreter does not know how an op runs. Its method `call` (`interpreter.py` in core) gets the
op, its arguments, and the interpreters that come after it. It returns NOT_TAKEN or a result; to
compute the result, it may call the general path of the same op again. The open interpreters of a
thread are one tuple, see Note [Interpreters of a thread]. While `modes.tracers` is 0, none is open
in any thread, and calls take their short path. Otherwise the short path still serves most calls on
plain tensors, see Note [The short path and interpreters] in dispatch/call.py. While only profiles
are open, a version of the short path that reads the clock twice serves them, see Note [The short
path].

A call is offered in this order: to the `__torch_function__` of modes and arguments
(`torch_function.py`); to `vmap` (`batching.py` for ops with a rule, on tensors of
`batched_tensor.py`; `batch_loop.py` for other functions, which it calls in a loop); to profiles
(`timing.py`, with `device_work.py` and `flops.py`); to autocast (`autocast.py`); and to recorders
(`tracing.py`). The rules for sparse operands are in `sparse_rules.py`. `observed_methods.py`
reports Tensor methods that are not ops to profiles and recorders.

Ops offer their calls in dispatch/call.py (the public functions first in `op.py`), composites and
in-place twins in dispatch/composite.py. Functions that bypass these two modules call `offer`, or
`offer_to_mode` if they check their arguments later: in dispatch `inplace.py`, `target.py` and
`view.py`, in ops indexing (`subscript.py`), reshape (`views.py`), cat and stack (`joining.py`) and
linear (`products.py`), in nn `functional.py`, in namespace `activations.py`, in autograd
`differentiate.py`, in tensor `subclasses.py`, and the public `overrides.py`. A new function of this
kind must do the same, and call `active_recorder()` if traces should show it;
tests/house/test_glossary.py compares this list with the code.

docs/glossary.md explains the terms.
"""
