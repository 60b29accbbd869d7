"""Write tail_results.json: values and two derivatives of the cases in tails.py, found by mpmath.

Run `python -m tests.ops.make_tail_results` where mpmath is installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .tails import CASES, POINTS

PLACE = Path(__file__).with_name("tail_results.json")


def derivatives(mp: Any, text: str, x: float) -> list[float]:
    """Return the value and the first two derivatives at x, by differences with 1000 digits."""
    mp.mp.dps = 1000
    step = mp.mpf(10) ** -100
    function = eval(f"lambda x: {text}", {"m": mp})
    low, at, high = (function(mp.mpf(x) + k * step) for k in (-1, 0, 1))
    found = [at, (high - low) / (2 * step), (high - 2 * at + low) / step**2]
    return [float(one) for one in found]


def main() -> None:
    """Write the results of all cases to the file."""
    import mpmath

    found = {
        name: [derivatives(mpmath, text, x) for x in POINTS] for name, (_, text) in CASES.items()
    }
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in found.items()]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
