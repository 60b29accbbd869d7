"""Data-parallel jobs: the usual one, and those that need more than gradients of first order.

Each is a job of two processes, `fastdist demo data-parallel-NAME`, and a page to read:

group.py    joins the process group, and shares parameters
ddp.py      a model in DistributedDataParallel
maml.py     first weights from which one step on the points of both processes is enough
penalty.py  a loss that is flat where it is small: the gradient's length is part of it
hessian.py  the largest curvature of a loss, by products with the Hessian
pinn.py     heat in a rod is learnt from the equation alone, at points of both processes

Each holds its derivatives against those of one process that has all data.
"""

from __future__ import annotations
