"""The states of all random generators of a process, to be saved and restored."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from ...core.device import CPU, Device
from ...devices.gpus import device_count
from ...random_numbers.generator import default_generator_of
from .. import rpc


@rpc.export
class RngState:
    """The states of the CPU's and all GPUs' default generators, Python's `random` and NumPy's.

    In a state dict each worker's RngState needs a separate key: {f"rng.{name}": RngState(), ...}.
    The state of any other generator is saved by the user, with get_state().
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the generators; NumPy's only if `numpy.random` was imported."""
        found = {
            "devices": [default_generator_of(device).get_state() for device in _devices()],
            "python": random.getstate(),
        }
        if (numpy := sys.modules.get("numpy.random")) is not None:
            kind, key, place, has_normal, normal = numpy.get_state()
            # The key is saved as a list of numbers, because no tensor has the dtype uint32.
            found["numpy"] = (kind, key.tolist(), int(place), int(has_normal), float(normal))
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of the generators. A GPU without a saved state, because it did not
        exist at the save, keeps its present state.
        """
        for device, state in zip(_devices(), state_dict["devices"]):
            default_generator_of(device).set_state(state)
        random.setstate(state_dict["python"])
        if "numpy" in state_dict:
            np.random.set_state(state_dict["numpy"])  # noqa: NPY002 - which programs draw from


def _devices() -> list[Device]:
    return [CPU, *(Device("cuda", index) for index in range(device_count()))]
