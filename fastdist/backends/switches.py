"""Switches of one backend that are set for a block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def set_for_a_block(module: str, **switches: Any) -> Iterator[None]:
    """Set the module's switches, and put them back after the block."""
    names = vars(sys.modules[module])
    before = {name: names[name] for name in switches}
    names.update(switches)
    try:
        yield
    finally:
        names.update(before)
