"""Access to mpi4py, which is imported when a program requests the backend `mpi`."""

from __future__ import annotations

import importlib.util
import os
from importlib import import_module
from typing import Any, Final

# Environment variables of OpenMPI's launcher and of launchers with PMI (MPICH, Intel MPI, srun).
_LAUNCHED: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID")


def why_missing() -> str:
    """Return why MPI cannot be used in this process, or "" if it can be; import nothing."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (in the clone of fastdist, pip install -e '.[mpi]')"
    if not any(name in os.environ for name in _LAUNCHED):
        return "MPI did not start this process (mpirun -n 4 python PROGRAM does)"
    return ""


def library() -> Any:
    """Return mpi4py's module MPI. The first call initialises MPI in this process."""
    return import_module("mpi4py.MPI")
