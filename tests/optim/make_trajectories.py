"""Write trajectories.json with PyTorch: `python -m tests.optim.make_trajectories torch`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.optim.option_rows import OPTIONS, STEPS, combinations, gradient, start

PLACE = Path(__file__).with_name("trajectories.json")


def last_places(tensors: Any, optim: Any, name: str, dtype: Any) -> list[list[float]]:
    """Return the final parameters as a flat list, for each combination of options."""
    found = []
    for options in combinations(name):
        parameter = tensors.tensor(start(), dtype=dtype, requires_grad=True)
        optimizer = getattr(optim, name)([parameter], **options)
        for step in range(STEPS):
            parameter.grad = tensors.tensor(gradient(step), dtype=dtype)
            optimizer.step()
        found.append(parameter.detach().reshape(-1).tolist())
    return found


def main() -> None:
    """Write the file with the library named on the command line; tests never import PyTorch."""
    package = importlib.import_module(sys.argv[1])
    places = {name: last_places(package, package.optim, name, package.float64) for name in OPTIONS}
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(place) for place in rows) + "\n]"
        for name, rows in places.items()
    ]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
