"""Random number generators under PyTorch's names; `fork_rng` saves and restores their states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .core.device import CPU, Device
from .core.missing import explain_missing
from .devices.gpus import device_count
from .ops.create.random import get_rng_state, set_rng_state
from .random_numbers.generator import (
    default_generator,
    default_generator_of,
    initial_seed,
    manual_seed,
    seed,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Restore the generators of the CPU and of `devices` (default: all GPUs) after the block."""
    if not enabled:
        yield
        return
    if devices is None:
        devices = range(device_count()) if device_type == "cuda" else ()
    named = [Device(device_type, d) if isinstance(d, int) else Device(d) for d in devices]
    generators = [default_generator_of(device) for device in (CPU, *named)]
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


explain_missing(__name__)
