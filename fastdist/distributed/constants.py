"""The constants of process groups."""

from __future__ import annotations

from datetime import timedelta

from ..core.missing import explain_missing

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
# PyTorch has one only where it is built with NCCL.
default_pg_nccl_timeout: timedelta | None = None
# DistributedDataParallel's first bucket is small, so that its reduction begins early.
FIRST_BUCKET_BYTES = 1024 * 1024
# The exit status of a worker that has saved its state after preempted() and wants the job to be
# started again later: EX_TEMPFAIL of sysexits.h.
PREEMPTED_EXIT_STATUS = 75

explain_missing(__name__)
