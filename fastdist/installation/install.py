"""`fastdist as-torch --install` and `--uninstall`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from ..core.version import TORCH_VERSION
from ..system.atomic_file import atomic_file
from . import constraint, distribution, pip_file, pip_settings
from .environment import Environment, InstallError, require_suitable, this_environment

_REMOVED_BY = "fastdist as-torch --uninstall"


def install(variables: Mapping[str, str]) -> str:
    """Install `torch` into this Python's environment, and return a report.

    A second call repairs missing parts. See Note [Files outside RECORD].

    Raises  InstallError if this environment is not suitable or has another torch; OSError if
            a file cannot be written. After any error the environment is unchanged
    """
    environment = this_environment()
    with _alone(environment):
        distribution.require_replaceable(environment.site_packages)
        require_suitable(environment)
        return _install(environment, variables)


def _install(environment: Environment, variables: Mapping[str, str]) -> str:
    path = constraint.file_of(environment)
    url = constraint.url_of(path)
    old = pip_file.read_text(environment.pip_file)
    pip_file.parse(old, environment.pip_file)
    hidden = pip_settings.hidden_by(environment, pip_file.remove(old, url), variables)
    new, wanted = pip_file.add(old, url), constraint.text_with(hidden)
    was_there = (
        distribution.is_complete(environment.site_packages)
        and new == old
        and os.path.exists(path)
        and pip_file.read_text(path) == wanted
    )
    if not was_there:
        with ExitStack() as undone_on_error:
            undone_on_error.enter_context(distribution.written(environment.site_packages))
            undone_on_error.enter_context(_written(path, wanted))
            undone_on_error.enter_context(_written(environment.pip_file, new))
    return _report(environment, url, variables, was_there=was_there)


def uninstall() -> str:
    """Remove the files of `install` from this Python's environment, and return a report.

    Raises  InstallError if pip.conf is not a valid configuration; OSError if a file cannot be
            removed. After an error, a second call removes the remaining files
    """
    environment = this_environment()
    with _alone(environment):
        return _uninstall(environment)


def _uninstall(environment: Environment) -> str:
    path = constraint.file_of(environment)
    old = pip_file.read_text(environment.pip_file)
    pip_file.parse(old, environment.pip_file)
    new = pip_file.remove(old, constraint.url_of(path))
    distribution.remove_parts(environment.site_packages)
    there = distribution.is_there(environment.site_packages)
    where = environment.site_packages
    if not there and old == new and not os.path.exists(path):
        return f"nothing to remove: `fastdist as-torch --install` put nothing into {where}"
    lines = []
    if new != old:
        _write_or_remove(environment.pip_file, new)
        lines.append(f"  pip: removed the constraint from {environment.pip_file}")
    if os.path.exists(path):
        os.unlink(path)
    left = distribution.remove(environment.site_packages)
    lines += [f"  left {folder}: it has files that fastdist did not write" for folder in left]
    others = [one for one in distribution.find(environment.site_packages) if not one.is_ours]
    lines += [f"  left torch {one.version}, which fastdist did not install" for one in others]
    what = "torch" if there else "the constraint for torch"
    return "\n".join([f"removed {what} from {where}", *lines])


def _report(
    environment: Environment, url: str, variables: Mapping[str, str], *, was_there: bool
) -> str:
    already = "already " if was_there else ""
    where = environment.site_packages
    lines = [
        f"torch {TORCH_VERSION} is {already}installed in {where}: `import torch` is fastdist there",
        f"  pip: {environment.pip_file} keeps pip from replacing it",
        f"  uv:  {_export(constraint.UV_VARIABLE, url, variables)}",
        f"  remove it with: {_REMOVED_BY}",
        *_warnings(environment, url, variables),
    ]
    return "\n".join(lines)


def _warnings(environment: Environment, url: str, variables: Mapping[str, str]) -> list[str]:
    """Return a line for each setting that makes pip or conda ignore the constraint."""
    lines = []
    found = pip_settings.in_effect(environment, variables)
    if url not in found.words:
        if found.origin == pip_settings.VARIABLE:
            remedy = _export(pip_settings.VARIABLE, url, variables)
        elif variables.get(pip_settings.FILE_VARIABLE) == os.devnull:
            remedy = f"unset {pip_settings.FILE_VARIABLE}"
        else:
            remedy = f"add {url} to `constraint` in the section [install] of {found.origin}"
        hides = found.origin or environment.pip_file
        lines.append(f"  warning: {hides} makes pip ignore that file here; {remedy}")
    if os.path.isdir(os.path.join(environment.prefix, "conda-meta")):
        lines.append(
            "  warning: conda does not read pip's configuration: `conda install` of a package that "
            "needs PyTorch can replace this torch"
        )
    return lines


def _export(name: str, url: str, variables: Mapping[str, str]) -> str:
    """Return the shell command that adds the constraint's URL to an environment variable."""
    words = variables.get(name, "").split()
    if url in words:
        return f"{name} names the constraint already"
    return f'export {name}="${name} {url}"' if words else f"export {name}={url}"


@contextmanager
def _alone(environment: Environment) -> Iterator[None]:
    """Lock the environment, so that only one install or uninstall runs at a time."""
    try:
        descriptor = os.open(environment.site_packages, os.O_RDONLY)
    except FileNotFoundError:
        raise InstallError(f"there is no folder {environment.site_packages}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _written(path: str, text: str) -> Iterator[None]:
    """Write a file, and restore its old text if the `with` block fails."""
    old = pip_file.read_text(path) if os.path.exists(path) else None
    try:
        _write(path, text)
        yield
    except BaseException:
        if old is not None:
            _write(path, old)
        elif os.path.exists(path):
            os.unlink(path)
        raise


def _write_or_remove(path: str, text: str) -> None:
    """Write a file, or remove it if the text is empty. If the path is a symbolic link, keep the
    link, and write the empty text.
    """
    if text.strip() or os.path.islink(path):
        _write(path, text)
    else:
        os.unlink(path)


def _write(path: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    with atomic_file(path, len(data)) as file:
        file.write(data)
