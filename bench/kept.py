"""Figures of a GPU, saved into bench/results immediately, because the GPU may be gone later."""

from __future__ import annotations

import datetime
import importlib
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def when_and_what() -> dict[str, str]:
    """Return the date and the commit that is measured.

    A + after the commit means that files differ from the commit. Without git the commit is unknown.
    """
    here = Path(__file__).parent
    try:
        commit = _git("rev-parse", "--short=12", "HEAD", folder=here)
        changed = _git("status", "--porcelain", "--untracked-files=no", folder=here)
    except (OSError, subprocess.CalledProcessError):
        commit, changed = "unknown", ""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": today, "commit": commit + "+" * bool(changed)}


def _git(*words: str, folder: Path) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def keep(figures: Mapping[str, Any], printed: str) -> list[Path]:
    """Write the figures of --json, their printed tables and, if a row has a peer, their chart.

    Return the files, which are named after the date, the GPU and the benchmarks.
    """
    of_gpu = [result for result in figures["results"] if "gpu" in result["machine"]]
    gpu = of_gpu[0]["machine"]["gpu"]
    parts = (figures["date"], gpu, *[result["bench"] for result in of_gpu])
    stem = re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")
    RESULTS.mkdir(exist_ok=True)
    texts = {".json": json.dumps(figures, indent=2) + "\n", ".txt": printed}
    if any(row["ratio"] for result in figures["results"] for row in result["rows"]):
        # Imported after one_thread_each, because bench.chart loads NumPy.
        texts[".svg"] = importlib.import_module("bench.chart").chart(figures)
    made = []
    for suffix, text in texts.items():
        made.append(RESULTS / (stem + suffix))
        made[-1].write_text(text)
    return made
