"""Who listens to calls, or takes them over.

None of them knows how an op runs: they are given an op, its operands and attributes, and call its
general path again, or another one. Dispatch asks them in one place each: an op at the start of its
general path, in `dispatch/general_path.py`, a composite in `dispatch/arguments.py`. While nobody
listens nobody is asked: `modes.tracers` is zero then, and calls take their short path.

An argument or a mode whose `__torch_function__` wants the call is asked first
(`torch_function.py`); a sparse tensor has a rule of its own, or is refused (`sparse_rules.py`).
Then come a batch of calls (`batching.py`: `vmap`, on tensors as `batched_tensor.py` has them, and
one after the other, as `batch_loop.py` makes those that no rule knows), a profile (`timing.py`,
with the work of devices, `device_work.py`, and the operations, `flops.py`), autocast
(`autocast.py`) and a recorder (`tracing.py`). `observed_methods.py` lets a profile and a recorder
hear of methods that no op is.
"""
