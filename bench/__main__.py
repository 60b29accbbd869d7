"""The command `python -m bench`: lists the benchmarks, or runs the benchmarks that are named."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.catalogue import benchmarks, module_of
from bench.harness import (
    DEFAULT_ROUNDS,
    Failed,
    as_json,
    choose,
    machine,
    machine_line,
    one_thread_each,
    table,
)
from bench.kept import keep, when_and_what

# Benchmarks that write their figures to files, and fail if they miss a target.
HELD = ("first_contact", "gpu")
# Module in the NEEDS of a benchmark -> the package on the package index that has the module.
PACKAGES = {"zmq": "pyzmq", "prometheus_client": "prometheus_client"}


def main() -> None:
    """List the benchmarks, or run the named ones, print their tables and save the figures."""
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="see the list, or all")
    parser.add_argument("--rounds", type=at_least_two, default=DEFAULT_ROUNDS)
    parser.add_argument("--only", metavar="TEXT", default="", help="rows with TEXT in their names")
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare this tree with that of a commit, in turns"
    )
    parser.add_argument(
        "--device",
        metavar="shim|fibres",
        help="where a benchmark offers it: ops on GPUs, kernels free; gpu_day on a stand-in",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the ratios there")
    options = parser.parse_args()
    if not options.names:
        print(listing(known))
        return
    if unknown := set(options.names) - {*known, "all"}:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; known: {', '.join(known)}, all")
    choose(options.only)
    names = [*known] if "all" in options.names else [*dict.fromkeys(options.names)]
    if options.against:
        if options.json or options.svg:
            parser.error("--json and --svg save comparisons with PyTorch; --against only prints")
        against = importlib.import_module("bench.against")
        if slower := against.measure(names, options.against, options.rounds, options.device):
            raise SystemExit(f"slower than {options.against}: {', '.join(r.name for r in slower)}")
        return
    one_thread_each()
    # Before torch: both load NumPy, and the first of them chooses the kernels of NumPy's BLAS.
    importlib.import_module("fastdist")
    facts = machine()
    print(machine_line(facts))
    tables: dict[str, str] = {}
    results = [run(name, options.rounds, options.device, tables) for name in names]
    figures: dict[str, Any] = {"machine": facts, **when_and_what(), "results": results}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    of_gpu = [result for result in results if result["bench"] in HELD and result["rows"]]
    if of_gpu:
        text = "\n\n".join(f"{one['bench']}\n{tables[one['bench']]}" for one in of_gpu)
        files = keep({**figures, "results": of_gpu}, text + "\n")
        print(f"\nkept in {', '.join(map(str, files))}")
    wrong = [f"{one['bench']}: {one['failed']}" for one in results if "failed" in one]
    if late := list(missed(results if options.device else of_gpu)):
        wrong.append(f"above their bounds: {', '.join(late)}")
    if wrong:
        raise SystemExit("; ".join(wrong))
    if options.svg:
        # Imported after one_thread_each, because bench.chart loads NumPy.
        chart = importlib.import_module("bench.chart").chart
        try:
            options.svg.write_text(chart(figures))
        except ValueError as error:
            raise SystemExit(str(error)) from error


def listing(known: dict[str, str]) -> str:
    """Return the usage and the list of benchmarks."""
    width = max(map(len, known), default=0)
    lines = [f"  {name.ljust(width)}  {about}" for name, about in known.items()]
    return "\n".join(
        [
            "usage: python -m bench NAME... | all  [--rounds N] [--only TEXT] [--json F] [--svg F]",
            "       python -m bench NAME... | all  --against COMMIT  [--rounds N] [--only TEXT]",
            "       python -m bench ops --device shim  [--rounds N] [--against COMMIT]",
            "       python -m bench gpu_day [--device fibres]  [--rounds N]",
            *lines,
        ]
    )


def at_least_two(text: str) -> int:
    """Return a parsed number of rounds. It must be at least 2, because one round has no spread."""
    rounds = int(text)
    if rounds < 2:
        raise argparse.ArgumentTypeError(f"{rounds} rounds have no spread; take 2 or more")
    return rounds


def missed(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the names of the cases whose ratios are above their targets."""
    for result in results:
        for row in result["rows"]:
            if row["ratio"] and row["target"] and row["ratio"]["median"] > row["target"]:
                yield row["name"]


def run(name: str, rounds: int, device: str | None, tables: dict[str, str]) -> dict[str, Any]:
    """Run one benchmark, and print its facts about the machine and its table.

    If packages are missing, print their names instead. The table is also stored in `tables`.
    """
    module = importlib.import_module(module_of(name))
    if lacking := [one for one in getattr(module, "NEEDS", ()) if not find_spec(one)]:
        packages = " ".join(PACKAGES[one] for one in lacking)
        print(f"\n{name}: left out, for it needs {packages} (pip install {packages})", flush=True)
        return as_json(name, [], {"left out without": packages})
    print(f"\n{name}, {rounds} rounds, median [quartiles], ratio = fastdist / peer", flush=True)
    facts = module.machine() if hasattr(module, "machine") else {}
    if facts:
        print(", ".join(f"{fact} {value}" for fact, value in facts.items()), flush=True)
    failed = {}
    try:
        rows = module.run(rounds, device) if device else module.run(rounds)
    except Failed as error:
        rows, failed = error.rows, {"failed": str(error)}
    if rows:
        tables[name] = table(rows)
        print(tables[name], flush=True)
    return {**as_json(name, rows, facts), **failed}


if __name__ == "__main__":
    main()
