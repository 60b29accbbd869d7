"""Interpreters: code that observes calls of ops, or changes how they run.

An interpreter does not know how an op runs. Its method `call` (`interpreter.py` in core) gets the
op, its arguments, and the interpreters that come after it. It returns NOT_TAKEN or a result; to
compute the result, it may call the general path of the same op again. The open interpreters of a
thread are one tuple, see Note [Interpreters of a thread]. While `modes.tracers` is 0, no
interpreter is open in any thread, and calls take their short path. While an interpreter is open,
the short path still serves most calls on plain tensors, see Note [The short path and interpreters]
in dispatch/call.py. While only profiles are open, calls take a version of the short path that reads
the clock twice, see Note [The short path].

A call is offered in this order: to the `__torch_function__` of modes and arguments
(`torch_function.py`); to `vmap` (`batching.py`, on the tensors of `batched_tensor.py`, for ops with
a batching rule; `batch_loop.py` calls all other functions in a loop, and `batched_draws.py` says
which random numbers to draw); to profiles (`timing.py`,
with `device_work.py` and `flops.py`); to autocast (`autocast.py`); and to recorders (`tracing.py`).
The rules for sparse operands are in `sparse_rules.py`. `observed_methods.py` reports calls of
Tensor methods that are not ops to profiles and recorders.

Ops offer their calls in dispatch/call.py, and their public functions do so earlier, in `op.py`.
Composites and in-place twins offer their calls in dispatch/composite.py. Functions that bypass
these modules call `offer`, or `offer_to_mode` if they check their arguments later. Their files are,
by package: dispatch (`inplace.py`, `target.py`), ops (`subscript.py` for indexing, `views.py` for
reshape, `view_inplace.py` for detach, `joining.py` for cat and stack, `products.py` for linear), nn
(`functional.py`), namespace (`activations.py`), autograd (`differentiate.py`), tensor
(`subclasses.py`), and the public `overrides.py`. A new function of this kind must do the same, and
call `active_recorder()` if traces should show it; tests/house/test_glossary.py compares this list
with the code.

docs/glossary.md explains the terms.
"""
