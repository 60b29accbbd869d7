"""Interpreters: code that observes calls of ops, or runs them in another manner.

An interpreter does not know how an op runs. It gets the op, its operands and its attributes, and
calls the general path of the same op again, or of other ops. While none is active `modes.tracers`
is 0, and calls take their short path.

Order of a call: first the `__torch_function__` of arguments and modes (`torch_function.py`), then
the rules for sparse operands (`sparse_rules.py`), then `vmap` (`batching.py` for ops with a rule on
tensors of `batched_tensor.py`; `batch_loop.py` for the others, one call after the other), profiles
(`timing.py`, with `device_work.py` and `flops.py`), autocast (`autocast.py`) and recorders
(`tracing.py`). `observed_methods.py` shows profiles and recorders the Tensor methods that are not
ops.

Ops offer their calls in dispatch/general_path.py (the public functions first in `op.py`),
composites in dispatch/arguments.py. Functions that bypass both ask separately: in dispatch
`copy_inplace.py`, `output.py` and `view.py`, in ops indexing (`subscript.py`) and reshape
(`views.py`), in nn `functional.py`, in namespace `activations.py`, and the public
`overrides.py`. A new function of this kind must ask `mode_is_open()`, and `active_recorder()` if a
trace is to show it; tests/house/test_glossary.py compares this list with the code.

The terms are explained in docs/glossary.md.
"""
