"""Groups of workers on engines that place and watch processes themselves: Ray and Dask.

    ray.py          WorkerGroup: actors in a placement group of Ray
    dask.py         run and FastdistPlugin: the worker processes of a Dask cluster
    dask_groups.py  the groups of a Dask cluster, on its scheduler
    group.py        the store of a group, and the loop that starts and restarts its workers
    worker.py       one life of one worker: its environment, its function, and its outcome

An engine runs processes. fastdist needs workers with ranks, which share a store and a secret.
`group.Hub` serves the store in a process that outlives the workers: Ray's driver, or Dask's
scheduler. `group.supervise` makes a `worker.Life` for each rank, and lets the engine run the life
in a process. If the process is lost or the function raises, `supervise` starts the next life of the
rank. A life sets the same variables as `fastdist run`, so `init_rpc` and `init_process_group` need
no arguments and programs run unchanged.

The engine's own messages carry the secret. A worker stores the secret in an unnamed file in memory,
to which FASTDIST_JOB_SECRET_FILE refers. So the secret appears in no command line, environment or
log, and on no disk.
"""

from __future__ import annotations
