"""PyTorch's hub: models of a local folder, and weight files that are downloaded to a cache folder.

`load`, `list` and `help` read a folder's hubconf.py (source="local"). Repositories are never
downloaded, because their code would run without review.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlparse

from .core.folded_frames import fold_public
from .core.missing import NO_HUB, explain_missing
from .core.short_repr import short_repr
from .serialization.loading import load as _load_file
from .system.atomic_file import atomic_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

# The beginning of a file's SHA-256, which names such as resnet18-bfd8deac.pth contain.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_TORCH_HOME: Final = "TORCH_HOME"
ENV_XDG_CACHE_HOME: Final = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR: Final = "~/.cache"
MODULE_HUBCONF: Final = "hubconf.py"
READ_DATA_CHUNK: Final = 128 * 1024
_chosen: str | None = None


def _get_torch_home() -> str:
    """Return $TORCH_HOME, or "torch" in the user's cache folder if the variable is not set."""
    caches = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(caches, "torch")))


def get_dir() -> str:
    """Return the folder of the hub: the one passed to set_dir, or "hub" in _get_torch_home()."""
    return os.path.join(_get_torch_home(), "hub") if _chosen is None else _chosen


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of the hub for this process."""
    global _chosen
    _chosen = os.path.expanduser(os.fspath(d))


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a URL to a path. The file appears at the path only when it is complete.

    Args:
        url: The URL.
        dst: The path.
        hash_prefix: The beginning of the file's SHA-256; None skips the check.
        progress: Whether to print the number of bytes at the end.

    Raises  RuntimeError if the hash differs, URLError if the URL cannot be read
    """
    from urllib.request import Request, urlopen

    digest, count = hashlib.sha256(), 0
    answer = urlopen(Request(url, headers={"User-Agent": "fastdist.hub"}))
    with answer, atomic_file(os.path.expanduser(dst)) as file:
        while chunk := answer.read(READ_DATA_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            count += len(chunk)
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
    if progress:
        sys.stderr.write(f"{dst}: {count} bytes\n")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """Return the contents of a weight file, after a download if the folder does not have the file.

    Args:
        url: The URL; the last part of its path is the name of the file.
        model_dir: The folder; None means "checkpoints" in the folder of the hub.
        map_location: As for `fastdist.load`.
        progress: Whether to print the number of bytes after a download.
        check_hash: Whether to check a downloaded file against the beginning of its SHA-256, if the
            file name contains that.
        file_name: Another name for the file.
        weights_only: As for `fastdist.load`: False lets a file run code. PyTorch's default is
            False in this function.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    state: dict[str, Any] = _load_file(path, map_location, weights_only=weights_only)
    return state


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call a function of a folder's hubconf.py with the arguments, and return its result.

    Args:
        repo_or_dir: The folder.
        model: The function's name.
        args: The function's arguments.
        source: "local"; repositories of GitHub are not fetched.
        kwargs: The function's keyword arguments. trust_repo, force_reload, verbose and
            skip_validation are ignored, because they apply to repositories only.

    Raises  NotImplementedError for source="github", ValueError for any other source, RuntimeError
            for a name that hubconf.py does not define
    """
    if source.lower() not in ("github", "local"):
        raise ValueError(
            f"Unknown source: {short_repr(source)}. Allowed values: 'github' | 'local'."
        )
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    with _hubconf("load", repo_or_dir, source) as module:
        return _entry(module, model)(*args, **kwargs)


def list(github: Any, *args: Any, source: str = "github", **kwargs: Any) -> builtins.list[str]:
    """Return the names of the functions of a folder's hubconf.py; other arguments are ignored.

    Raises  NotImplementedError unless source is "local"
    """
    with _hubconf("list", github, source) as module:
        return [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]


def help(github: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Return the docstring of a function of a folder's hubconf.py; other arguments are ignored.

    Raises  NotImplementedError unless source is "local"
    """
    with _hubconf("help", github, source) as module:
        return _entry(module, model).__doc__


@contextmanager
def _hubconf(function: str, folder: Any, source: str) -> Iterator[Any]:
    """Import a folder's hubconf.py, and keep the folder on sys.path within the `with` block."""
    if source.lower() != "local":
        raise NotImplementedError(f"{__name__}.{function}: {NO_HUB}; or pass source='local'")
    folder = os.fspath(folder)
    path = os.path.join(folder, MODULE_HUBCONF)
    spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: Any, model: str) -> Any:
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


fold_public(__name__)
explain_missing(__name__)
