"""The default random generators of GPUs: seeds and states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.device import Device
from ..core.folded_frames import fold_public
from ..core.missing import explain_missing
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of
from ..random_numbers.generator import Generator, default_generator_of

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Seed the generator of this thread's current GPU. The call also works without a GPU."""
    default_generator_of(Device("cuda")).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).manual_seed(seed)


def seed() -> None:
    """Seed the generator of this thread's current GPU with an unpredictable number."""
    default_generator_of(Device("cuda")).seed()


def seed_all() -> None:
    """Seed the generators of all GPUs with unpredictable numbers."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).seed()


def initial_seed() -> int:
    """Return the seed of the generator of this thread's current GPU."""
    return default_generator_of(Device("cuda")).initial_seed()


def get_rng_state_all() -> list[Any]:
    """Return the states of the generators of all GPUs; an empty list without a GPU."""
    return [default_generator_of(Device("cuda", i)).get_state() for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restore the states that `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        default_generator_of(Device("cuda", index)).set_state(state)


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of a GPU's random generator.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return default_generator_of(Device("cuda", index_of(device))).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restore the state of a GPU's random generator that `get_rng_state` returned.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    default_generator_of(Device("cuda", index_of(device))).set_state(new_state)


def default_generators() -> tuple[Generator, ...]:
    """Return the default generator of each GPU."""
    return tuple([default_generator_of(Device("cuda", index)) for index in range(device_count())])


fold_public(__name__)
explain_missing(__name__)
