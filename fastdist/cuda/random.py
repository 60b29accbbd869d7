"""The streams of random numbers of GPUs: their seeds, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.device import Device
from ..core.missing import explain_missing
from ..devices.backend import backend_of
from ..devices.gpus import device_count, index_of
from ..random_numbers.generator import Generator, default_generator_of

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Restart the stream of random numbers of this thread's GPU, whether it exists or not."""
    default_generator_of(Device("cuda")).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Restart the streams of random numbers of all GPUs."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).manual_seed(seed)


def seed() -> None:
    """Begin the stream of this thread's GPU of a seed that nobody can foresee."""
    default_generator_of(Device("cuda")).seed()


def seed_all() -> None:
    """Begin the streams of all GPUs with seeds that nobody can foresee."""
    for index in range(max(device_count(), 1)):
        default_generator_of(Device("cuda", index)).seed()


def initial_seed() -> int:
    """Return the seed of the stream of random numbers of this thread's GPU."""
    return default_generator_of(Device("cuda")).initial_seed()


def get_rng_state_all() -> list[Any]:
    """Return where the streams of all GPUs stand; nothing where there is none."""
    return [default_generator_of(Device("cuda", i)).get_state() for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Let the streams of the GPUs go on from where they stood at get_rng_state_all."""
    for index, state in enumerate(new_states):
        default_generator_of(Device("cuda", index)).set_state(state)


def get_rng_state(device: Any = "cuda") -> Any:
    """Return where a GPU's stream of random numbers stands.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    return default_generator_of(Device("cuda", index_of(device))).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Let a GPU's stream go on from where it stood at get_rng_state.

    Raises  DeviceError without a GPU
    """
    backend_of("cuda")
    default_generator_of(Device("cuda", index_of(device))).set_state(new_state)


def default_generators() -> tuple[Generator, ...]:
    """Return the generators that draw on each GPU unless they are given another."""
    return tuple([default_generator_of(Device("cuda", index)) for index in range(device_count())])


explain_missing(__name__)
