"""The constants of process groups."""

from __future__ import annotations

from datetime import timedelta

from ..core.missing import explain_missing

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
# None, as in a PyTorch without NCCL.
default_pg_nccl_timeout: timedelta | None = None
# DistributedDataParallel's first bucket is small, so that its reduction starts early.
FIRST_BUCKET_BYTES = 1024 * 1024
# The exit status (EX_TEMPFAIL of sysexits.h) of a worker that has saved its state after preempted()
# returned True, and wants the job to be started again later.
PREEMPTED_EXIT_STATUS = 75

explain_missing(__name__)
