"""Draw the pictures of docs/guides/forward-mode.md: this runs a program of the page, and draws it.

Run it in the clone, with newton, maml or rod:
.venv/bin/fastdist run -n 3 docs/draw_forward_mode.py rod [--out FILE]
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import Any

import fastdist as torch
from fastdist.examples.line_plot import Curve, line_plot

GUIDES = Path(__file__).resolve().parent / "guides"


def draw_newton(found: dict[str, Any]) -> str:
    """Return the norms of the gradients over the passes that they took."""
    curves = [
        Curve(name, [(passes, math.log10(norm)) for passes, norm in found[key]])
        for name, key in (("gradient descent", "descent"), ("Newton-CG", "newton"))
    ]
    return line_plot(
        curves,
        title="Gradients of a loss over two workers",
        x_label="backward passes",
        y_label="norm of the gradient, as a power of ten",
    )


def draw_maml(found: dict[str, Any]) -> str:
    """Return a wave that was not learnt from, and the predictions for it."""
    torch.manual_seed(8)
    wave = lambda x: 3.5 * (x - 1.2).sin()  # noqa: E731
    points = torch.linspace(-4.6, 1.0, 10)[None]
    x = torch.linspace(-5, 5, 121)[None]
    first, rates = found["first"], found["rates"]
    lines = {"the wave": wave(x)}
    for steps, name in ((0, "before"), (1, "after 1 step"), (2, "after 2 steps")):
        learnt = found["learn"](first, rates, points, wave(points), steps)
        lines[name] = found["predict"](learnt, x)
    curves = [Curve(name, torch.stack([x[0], line[0]], 1).tolist()) for name, line in lines.items()]
    dots = torch.stack([points[0], wave(points)[0]], 1).tolist()
    curves.append(Curve("ten points", dots, is_joined=False))
    return line_plot(
        curves, title="A new wave, learnt from ten points", x_label="x", y_label="height"
    )


def draw_rod(found: dict[str, Any]) -> str:
    """Return the temperatures along the rod and their slopes."""
    lines = {"temperature": found["heat"]}
    lines |= {f"slope by the {name} conductivity": slope for name, slope in found["slopes"].items()}
    curves = [Curve(name, list(enumerate(line.tolist(), 1))) for name, line in lines.items()]
    return line_plot(
        curves,
        title="A rod split over two workers",
        x_label="cell of the rod (worker1: 1 to 10, worker2: 11 to 20)",
        y_label="temperature, and change for 1 of conductivity",
    )


DRAW = {"newton": draw_newton, "maml": draw_maml, "rod": draw_rod}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=DRAW)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    page = (GUIDES / "forward-mode.md").read_text()
    (text,) = re.findall(rf"^```python\n# {given.program}\.py\n(.*?)^```$", page, re.M | re.S)
    # Workers find functions of the program by name, as those of the main module.
    exec(compile(text, f"{given.program}.py", "exec"), globals())
    if globals()["rank"] == 0:
        out = given.out or GUIDES / f"{given.program}.svg"
        out.write_text(DRAW[given.program](globals()))
        print(f"wrote {out.name}")
