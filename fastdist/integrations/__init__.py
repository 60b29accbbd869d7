"""Groups of workers on engines that place and watch processes themselves: Ray and Dask.

    ray.py          WorkerGroup: actors in a placement group of Ray
    dask.py         run and FastdistPlugin: the worker processes of a Dask cluster
    dask_groups.py  the groups of a Dask cluster, on its scheduler
    group.py        the store of a group, and the loop that starts its workers, also again
    worker.py       one life of one worker: its environment, its function, and how that ended

An engine has processes; fastdist has workers with ranks, which meet in a store and share a secret.
`group.Hub` serves the store in a process that outlives the workers: the driver of Ray, the
scheduler of Dask. `group.supervise` gives each rank a `worker.Life`, asks the engine to run it, and
asks again, with the next number, when the process is lost or the function raises. A life sets the
variables that `fastdist run` sets, by the same function, so `init_rpc` and `init_process_group`
need no arguments and programs run unchanged.

The secret travels in the engine's own messages and lies in memory of the worker, which
FASTDIST_JOB_SECRET_FILE names: it is in no command line, no environment, no log and on no disk.
"""

from __future__ import annotations
