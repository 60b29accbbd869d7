"""pip and uv install packages that need torch, torchvision and an extra of torch, from an index.

`python -m tests.installation.with_index [PYTHON]` makes environments with spaces in their paths.
It takes about a minute and downloads about 100 MB. The pip tests next to this file need no index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fastdist.core.version import TORCH_VERSION

ROOT = Path(__file__).resolve().parents[2]
_UNWANTED = ("nvidia", "triton", "cuda")


def main(arguments: Sequence[str]) -> int:
    """Try each installer in a new environment."""
    python = arguments[0] if arguments else sys.executable
    with tempfile.TemporaryDirectory(prefix="with space ") as folder:
        for installer in ("pip", "uv", "as-torch pip", "as-torch uv"):
            _try(installer, python, Path(folder) / installer)
            print(f"{installer}: torchvision 0.28.0, no other torch")
    return 0


def _try(installer: str, python: str, folder: Path) -> None:
    _run(python, "-m", "venv", str(folder))
    bin_ = folder / "bin"
    _run(str(bin_ / "pip"), "install", "-e", str(ROOT), "uv")
    fastdist, own = str(bin_ / "fastdist"), str(bin_ / "python")
    variables = {"VIRTUAL_ENV": str(folder)}
    start = [own, "-m"]
    # uv reads only the environment's folder, so the distribution must be installed in this folder.
    if installer != "as-torch pip":
        report = _run(fastdist, "as-torch", "--install")
        (line,) = [one for one in report.splitlines() if "export UV_CONSTRAINT=" in one]
        if installer == "uv":
            variables["UV_CONSTRAINT"] = line.partition("UV_CONSTRAINT=")[2]
    if installer.startswith("as-torch"):
        start = [fastdist, "as-torch", "-m"]
    words = ["uv", "pip"] if installer.endswith("uv") else ["pip"]
    _run(*start, *words, "install", "vit-pytorch", "torch[opt-einsum]>=2.0", **variables)
    _run(*start, *words, "check", **variables)
    found = _distributions(folder)
    assert found["torchvision"] == "0.28.0" and "opt_einsum" in found, found
    assert found.get("torch", TORCH_VERSION) == TORCH_VERSION, found
    assert not [name for name in found if name.startswith(_UNWANTED)], found


def _distributions(folder: Path) -> dict[str, str]:
    names = [path.name for path in folder.glob("lib/python*/site-packages/*.dist-info")]
    return dict(name.removesuffix(".dist-info").split("-", 1) for name in names)


def _run(*command: str, **variables: str) -> str:
    inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
