"""PyTorch's older name of its hub, which is not here: it says what to do instead."""

from __future__ import annotations

from ..core.missing import explain_missing, refusing

__all__ = ["load_url"]

load_url = refusing(
    __name__,
    "load_url",
    "nothing is downloaded here: fetch the file of weights by yourself, and give load_state_dict "
    "what fastdist.load reads from it",
)

explain_missing(__name__)
