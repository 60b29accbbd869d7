"""The folders of an environment without its Python, and the files in them."""

from __future__ import annotations

from pathlib import Path

from fastdist.core.version import TORCH_VERSION
from fastdist.installation.environment import Environment

INFO = f"torch-{TORCH_VERSION}.dist-info"


def make_place(folder: Path, pip_conf: str | None = None) -> Environment:
    """Make an environment that has another distribution and, if `pip_conf` is given, a pip.conf."""
    site = folder / "lib" / "site-packages"
    (site / "einops-0.8.2.dist-info").mkdir(parents=True)
    (site / "einops-0.8.2.dist-info" / "METADATA").write_text("Name: einops\nVersion: 0.8.2\n")
    (site / "torchvision.py").write_text("")
    if pip_conf is not None:
        (folder / "pip.conf").write_text(pip_conf)
    return Environment(str(site), str(folder))


def add_torch(place: Environment, version: str = "2.14.1", installer: str = "pip") -> None:
    """Write the files of PyTorch's torch, as an installer would."""
    site = Path(place.site_packages)
    info = site / f"torch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    (info / "INSTALLER").write_text(installer)
    if installer == "pip":
        (site / "torch").mkdir(exist_ok=True)
        (site / "torch" / "__init__.py").write_text(f"__version__ = {version!r}\n")


def files_in(folder: str | Path) -> dict[str, bytes]:
    """Return the bytes of every file by its path; empty folders are left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() or not any(path.iterdir())
    }
