"""Gradient reduction for DistributedDataParallel (the class is in nn/parallel/distributed.py).

reducer.py      averages the gradients over the group: starts the reduction of each full bucket, and
                waits for all reductions at the end of a backward pass
buckets.py      assigns parameters to shared buffers, the buckets
grad_bucket.py  the argument of communication hooks; comm_hooks.py: the checks of a hook
backward_pass.py  finds the outputs of a forward, the parameters that they depend on, and the pass
                that starts at the outputs
messages.py     texts of errors that name parameters
for_wrappers.py  private functions of PyTorch that other module wrappers call
same_model.py   checks that all members have the same model, and copies the values of rank 0
logging_data.py  statistics of the reductions
times.py        start and end times of the parts of an iteration
sync_batch_norm.py  batch normalisation over the batches of all members

docs/glossary.md explains the terms.
"""

from __future__ import annotations
