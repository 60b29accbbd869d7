"""The kinds of device that one test takes in turn: sim, which is late, and cuda on fibres."""

from __future__ import annotations

import os
from typing import Final

from tests.fibre_shim.installed import be_on_fibres

KINDS: Final = ("sim", "cuda")
_NAME: Final = "FASTDIST_TESTS_DEVICE_KIND"


def told(kind: str) -> dict[str, str]:
    """Return what the environment of a group of workers says of the kind that they are to use."""
    return {_NAME: kind}


def kind_here() -> str:
    """Return which kind this worker uses; CuPy's place is filled from now on if that is cuda."""
    return use(os.environ[_NAME])


def use(kind: str) -> str:
    """Return the kind; CuPy's place in this process is filled from now on if that is cuda."""
    if kind == "cuda":
        be_on_fibres()
    return kind
