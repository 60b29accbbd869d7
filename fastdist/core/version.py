"""The versions of fastdist and of the PyTorch release whose API fastdist implements."""

from __future__ import annotations

import re
from typing import Any

# Used for the wheel, for the handshake between workers, and by `fastdist version`.
__version__ = "0.1.0"


class TorchVersion(str):
    """A string that compares as a version with a TorchVersion, a string or a tuple of numbers.

    Note    if either is not a valid version, both are compared as text, as in PyTorch
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        mine, theirs = _keys(self, other)
        return bool(mine < theirs)

    def __le__(self, other: Any) -> bool:
        mine, theirs = _keys(self, other)
        return bool(mine <= theirs)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        mine, theirs = _keys(self, other)
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _keys(one: str, other: Any) -> tuple[Any, Any]:
    """Return the sort keys of two versions."""
    text = ".".join(map(str, other)) if isinstance(other, tuple | list) else str(other)
    keys = _key(one), _key(text)
    return (str(one), text) if None in keys else keys


_VERSION = r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|b|rc|dev|post)[a-z]*\.?(\d*))?(?:\+(.*))?"
# The sort key of a release stage: pre-releases, then the final release (None), then post-releases.
_STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0, "post": 1}


def _key(text: str) -> tuple[Any, ...] | None:
    """Return the release numbers without trailing zeros, the stage and the local part; None for a
    string that is not a version.
    """
    found = re.fullmatch(_VERSION, text.strip().lower())
    if found is None:
        return None
    release = [int(number) for number in found[1].split(".")]
    while release and release[-1] == 0:
        release.pop()
    return tuple(release), _STAGES[found[2]], int(found[3] or 0), found[4] or ""


# The PyTorch version whose names and signatures fastdist has; also in pythonpath/torch.dist-info.
TORCH_VERSION = TorchVersion("2.13.0+fastdist")
