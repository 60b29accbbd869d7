"""The distribution `torch` in site-packages: a module, metadata, and the list of its files."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ..as_torch import FOLDER
from ..core.version import TORCH_VERSION, __version__
from ..system.atomic_file import atomic_file
from .environment import InstallError

INSTALLER = "fastdist"
_MODULE = os.path.join("torch", "__init__.py")
_MARK = "# Written by `fastdist as-torch --install`."
_FOLDER_NAME = re.compile(r"torch-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info", re.IGNORECASE)
_PARTS = ".fastdist-torch-"

_PROGRAM = f'''{_MARK}
"""fastdist under the name torch, for the packages of this environment that import torch."""

from __future__ import annotations

try:
    from fastdist import as_torch
except ImportError as error:
    if error.name != "fastdist":
        raise
    raise ModuleNotFoundError(
        "`torch` in this environment is fastdist, and fastdist is not installed here (any more). "
        "Install it again, or remove this torch: `pip uninstall torch`, and the line of pip.conf "
        "that names fastdist_torch_constraint.txt",
        name="fastdist",
    ) from None

as_torch.fill_torch(globals(), installed_for="{TORCH_VERSION}")
'''


class Found(NamedTuple):
    """A distribution `torch` in site-packages."""

    path: str
    version: str
    is_ours: bool

    @property
    def name(self) -> str:
        """The name of the metadata folder."""
        return os.path.basename(self.path)


def folder_name() -> str:
    """Return the name of the metadata folder of this version."""
    return f"torch-{TORCH_VERSION}.dist-info"


def find(site_packages: str) -> list[Found]:
    """Return the distributions named torch in a folder."""
    found = []
    for name in sorted(os.listdir(site_packages)):
        matched = _FOLDER_NAME.fullmatch(name)
        if matched is not None:
            path = os.path.join(site_packages, name)
            ours = _read(os.path.join(path, "INSTALLER")).strip() == INSTALLER
            found.append(Found(path, matched[1], ours))
    return found


def is_complete(site_packages: str) -> bool:
    """Return whether this version's files exist with the expected content."""
    return all(_read(os.path.join(site_packages, name)) == text for name, text in _files().items())


def require_replaceable(site_packages: str) -> None:
    """Check that a folder has no torch, or only one that fastdist wrote.

    Raises  InstallError for another torch, with advice how to remove it
    """
    for one in find(site_packages):
        if not one.is_ours:
            raise InstallError(
                f"torch {one.version} is installed in {site_packages}, and an environment has one "
                "torch; `pip uninstall torch` removes it, or use a new environment"
            )
    folder = os.path.join(site_packages, "torch")
    for path in (folder, folder + ".py"):
        if os.path.lexists(path) and not (_is_own_module(path) or _has_no_files(path)):
            raise InstallError(
                f"{path} is there and belongs to no distribution that fastdist wrote; remove it "
                "first"
            )


@contextmanager
def written(site_packages: str) -> Iterator[None]:
    """Write the distribution, and restore the former state if the `with` block fails.

    The module is written first: metadata without a module would promise a torch that cannot be
    imported. The metadata folder is completed under another name, and then renamed.
    """
    remove_parts(site_packages)
    module = os.path.join(site_packages, _MODULE)
    target = os.path.join(site_packages, folder_name())
    with ExitStack() as undo:
        parts = tempfile.mkdtemp(prefix=_PARTS, dir=site_packages)
        undo.callback(shutil.rmtree, parts, ignore_errors=True)
        undo.callback(_restore_module, module, _bytes_of(module), site_packages)
        _write_module(module, parts)
        new = os.path.join(parts, "new")
        os.mkdir(new)
        for name, text in _metadata().items():
            _write(os.path.join(new, name), text)
        if os.path.lexists(target):
            old = os.path.join(parts, "old")
            os.rename(target, old)
            undo.callback(os.rename, old, target)
        os.rename(new, target)
        undo.callback(os.rename, target, new)
        yield
        undo.pop_all()
    shutil.rmtree(parts)
    for one in find(site_packages):
        if one.is_ours and one.path != target:
            _discard(one.path, site_packages)


def remove(site_packages: str) -> list[str]:
    """Remove the files that `written` of any fastdist version wrote. Return folders that remain,
    because they have other files.

    The metadata is removed last, so that an interrupted removal can be repeated.
    """
    remove_parts(site_packages)
    folder = os.path.join(site_packages, "torch")
    others = [one for one in find(site_packages) if not one.is_ours]
    left = []
    if _is_own_module(folder) and not others:
        _remove_module(folder, site_packages)
        left = [folder] if os.path.lexists(folder) else []
    for one in find(site_packages):
        if one.is_ours:
            _discard(one.path, site_packages)
    return left


def _discard(path: str, site_packages: str) -> None:
    """Rename a folder and then remove it, so that an interruption leaves no part under its name."""
    parts = tempfile.mkdtemp(prefix=_PARTS, dir=site_packages)
    os.rename(path, os.path.join(parts, "old"))
    shutil.rmtree(parts)


def is_there(site_packages: str) -> bool:
    """Return whether any part of fastdist's distribution, of any version, exists."""
    own = _is_own_module(os.path.join(site_packages, "torch"))
    return own or any(one.is_ours for one in find(site_packages))


def _is_own_module(folder: str) -> bool:
    return _read(os.path.join(folder, "__init__.py")).startswith(_MARK)


def _has_no_files(folder: str) -> bool:
    """Return whether a folder contains no files except compiled Python files."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    compiled = os.path.join(folder, "__pycache__")
    return not any(names for place, _, names in os.walk(folder) if place != compiled)


def _write_module(module: str, parts: str) -> None:
    """Write the module. Create its folder and file together by a rename, because Python can import
    an empty folder.
    """
    folder = os.path.dirname(module)
    if os.path.isdir(folder):
        _write(module, _PROGRAM)
        return
    new = os.path.join(parts, "torch")
    os.mkdir(new)
    _write(os.path.join(new, os.path.basename(module)), _PROGRAM)
    os.rename(new, folder)


def _restore_module(module: str, old: bytes | None, site_packages: str) -> None:
    """Restore the module's old text, or remove the module if there was none."""
    if old is not None:
        with atomic_file(module, len(old)) as file:
            file.write(old)
    elif os.path.exists(module):
        _remove_module(os.path.dirname(module), site_packages)


def _remove_module(folder: str, site_packages: str) -> None:
    """Remove the module and its compiled files. Remove the folder if it has no other files."""
    compiled = os.path.join(folder, "__pycache__")
    own = [os.path.join(folder, "__init__.py")]
    if os.path.isdir(compiled):
        names = [name for name in os.listdir(compiled) if name.startswith("__init__.")]
        own += [os.path.join(compiled, name) for name in names]
    there = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    if set(there) == set(own):
        _discard(folder, site_packages)
        return
    for path in reversed(own):
        os.unlink(path)
    if os.path.isdir(compiled) and not os.listdir(compiled):
        os.rmdir(compiled)


def remove_parts(site_packages: str) -> None:
    """Remove temporary folders that earlier, killed runs left."""
    for name in os.listdir(site_packages):
        if name.startswith(_PARTS):
            shutil.rmtree(os.path.join(site_packages, name))


def _files() -> dict[str, str]:
    """Return the text of every file, by its path in site-packages."""
    below = {os.path.join(folder_name(), name): text for name, text in _metadata().items()}
    return {_MODULE: _PROGRAM, **below}


def _metadata() -> dict[str, str]:
    """Return the text of every file in the metadata folder."""
    files = {
        "INSTALLER": f"{INSTALLER}\n",
        "METADATA": _read(os.path.join(FOLDER, "torch.dist-info", "METADATA")),
        "REQUESTED": "",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: fastdist {__version__}\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        "top_level.txt": "torch\n",
    }
    rows = [_row("torch/__init__.py", _PROGRAM)]
    rows += [_row(f"{folder_name()}/{name}", text) for name, text in files.items()]
    files["RECORD"] = "".join([*rows, f"{folder_name()}/RECORD,,\n"])
    return files


def _row(name: str, text: str) -> str:
    """Return the line of a file in RECORD."""
    data = text.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


def _write(path: str, text: str) -> None:
    data = text.encode()
    with atomic_file(path, len(data)) as file:
        file.write(data)


def _read(path: str) -> str:
    data = _bytes_of(path)
    return "" if data is None else data.decode(errors="replace")


def _bytes_of(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
