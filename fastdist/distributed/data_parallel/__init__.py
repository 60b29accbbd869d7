"""The reductions of DistributedDataParallel, whose class is in nn/parallel/distributed.py.

reducer.py      from a leaf's gradient to the mean over the group: when a bucket is full, and when
                a backward pass has ended
buckets.py      which parameters share a buffer, and the buffers
grad_bucket.py  what communication hooks get; comm_hooks.py: the checks of a hook
backward_pass.py  outputs of a forward, the parameters behind them, and the pass that begins there
messages.py     errors that name parameters
for_wrappers.py  private functions of PyTorch that wrappers of others call
same_model.py   all members have one model: checks, and the values of rank 0
logging_data.py  facts about the reductions
times.py        when each part of an iteration began
sync_batch_norm.py  batch norms over the batches of all members

docs/glossary.md explains the terms.
"""

from __future__ import annotations
