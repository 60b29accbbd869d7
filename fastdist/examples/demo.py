"""Shared parts of the programs of `fastdist demo NAME`: options, progress, curves and results."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import fastdist
from fastdist import Tensor
from fastdist.examples.digits_settings import make_folder
from fastdist.examples.line_plot import Curve, line_plot
from fastdist.examples.progress import RedrawnLine
from fastdist.launch.command_parser import CommandParser

_PLAIN_LINES = 10
_SEED = 0


class Demo:
    """One run of a program: parses its options, counts its steps, and prints and plots its
    progress.

    With is_shown=False it prints and plots nothing; in a job only one process shows its progress.
    """

    def __init__(
        self,
        name: str,
        about: str | None,
        arguments: Sequence[str] | None,
        *,
        steps: int,
        is_shown: bool = True,
    ) -> None:
        prog = f"fastdist demo {name}"
        parser = CommandParser(
            prog,
            f"{prog} --steps 50",
            description=(about or "").partition("\n")[0],
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        add, folder = parser.add_argument, Path("fastdist-demo")
        add("--steps", type=int, default=steps, metavar="N", help="how many steps to train")
        add("--seed", type=int, default=_SEED, metavar="N", help="seed of all random numbers")
        add("--out", type=Path, default=folder, metavar="FOLDER", help="for the picture")
        given = parser.read(arguments)
        if given.steps < 1:
            parser.refuse(f"--steps must be at least 1, got {given.steps}")
        if not 0 <= given.seed < 2**63:
            parser.refuse(f"--seed must be 0 or more, and fit into 63 bits, got {given.seed}")
        self.is_shown = is_shown
        make_folder(given.out)
        self.seed: int = given.seed
        self.last_step: int = given.steps
        self._is_as_shipped = given.steps >= steps and given.seed == _SEED
        self.name = name
        self._picture: Path = given.out / f"{name}.svg"
        self._curves: dict[str, list[tuple[float, float]]] = {}
        self._step = 0
        self._start = time.perf_counter()
        fastdist.manual_seed(given.seed)

    def steps(self) -> Iterator[int]:
        """Yield the step numbers from 1 to the last step, and show the progress."""
        line = RedrawnLine(sys.stdout)
        for step in range(1, self.last_step + 1):
            self._step = step
            yield step
            if not self.is_shown:
                continue
            if line.is_due():
                line.draw(self._state(), step / self.last_step)
            elif not line.is_shown and step % -(-self.last_step // _PLAIN_LINES) == 0:
                print("  ".join(self._state()), flush=True)
        if self.is_shown:
            print(line.clear(), end="")

    def _state(self) -> list[str]:
        latest = [f"{name} {points[-1][1]:.4g}" for name, points in self._curves.items()]
        return [f"step {self._step}/{self.last_step}", *latest]

    def record(self, **values: Tensor | float) -> None:
        """Record values of this step by name, for the progress line, the curves and finish()."""
        for name, value in values.items():
            points = self._curves.setdefault(name.replace("_", " "), [])
            number = value.item() if isinstance(value, Tensor) else value
            points.append((float(self._step), number))

    def finish(
        self,
        result: str,
        value: float,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        picture: str | None = None,
    ) -> int:
        """Print the result, write the picture (default: the curves), and return the exit status.

        The bound on the result applies only to the default seed, with at least the default number
        of steps.
        """
        if not self.is_shown:
            return 0
        self._picture.write_text(picture or self._plot(), encoding="utf-8")
        watched, points = next(iter(self._curves.items()))
        early, late = _ends([y for _, y in points])
        elapsed_s = time.perf_counter() - self._start
        print(f"{watched} from {early:.4g} to {late:.4g} in {self._step} steps, {elapsed_s:.1f} s")
        word, bound = ("at least", at_least) if at_least is not None else ("at most", at_most)
        kept = bound is None or (value >= bound if word == "at least" else value <= bound)
        promise = f" (promised: {word} {bound:g})" if self._is_as_shipped and bound else ""
        print(f"result: {result} {value:.4g}{promise}")
        print(f"picture: {self._picture}")
        if self._is_as_shipped and not kept:
            print(f"fastdist demo {self.name}: the promise was not kept", file=sys.stderr)
            return 1
        return 0

    def _plot(self) -> str:
        curves = [Curve(name, points) for name, points in self._curves.items()]
        title = f"fastdist demo {self.name}"
        return line_plot(curves, title=title, x_label="step", y_label=", ".join(self._curves))


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the means of the first tenth and of the last tenth of values."""
    tenth = max(1, len(values) // 10)
    return sum(values[:tenth]) / tenth, sum(values[-tenth:]) / tenth
