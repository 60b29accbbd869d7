"""Data-parallel jobs: DistributedDataParallel, and losses that need higher derivatives.

Each program except group.py is a job of two processes, `fastdist demo data-parallel-NAME`:

group.py    the shared parts: joins the process group, and shares parameters
ddp.py      a model in DistributedDataParallel
maml.py     initial weights that adapt in one step on the points of both processes
penalty.py  a loss that includes the norm of its own gradient
hessian.py  the largest curvature of a loss, by products with the Hessian
pinn.py     heat in a rod, learned only from the equation at points of both processes

Each job compares its derivatives with those of one process that has all data.
"""

from __future__ import annotations
