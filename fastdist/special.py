"""Special functions under PyTorch's names: `fastdist.special.X`."""

from __future__ import annotations

from typing import Any

from .core.missing import find_late as _find_late
from .core.missing import show_public
from .namespace.load import NAMES as _NAMES
from .namespace.load import SPECIAL as _SPECIAL

# Maps the name of a function in `fastdist.special` to its name in `fastdist`.
_ALSO = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "i0": "i0",
    "log1p": "log1p",
    "log_softmax": "log_softmax",
    "logit": "logit",
    "logsumexp": "logsumexp",
    "modified_bessel_i0": "i0",
    "multigammaln": "mvlgamma",
    "polygamma": "polygamma",
    "psi": "digamma",
    "round": "round",
    "sinc": "sinc",
    "softmax": "softmax",
    "xlogy": "xlogy",
}
globals().update({name: _NAMES[ours] for name, ours in _ALSO.items()})
globals().update(_SPECIAL)
modified_bessel_i1 = _SPECIAL["i1"]
__all__ = sorted({*_ALSO, *_SPECIAL, "modified_bessel_i1"})  # noqa: PLE0605 (the catalogue says its names)


def __getattr__(name: str) -> Any:
    return _find_late(__name__, name)


show_public(__name__)
