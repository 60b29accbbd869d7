"""PyTorch's older name of the part of its hub that loads files of weights."""

from __future__ import annotations

from typing import Any

from ..core.missing import load_later

__all__ = ["load_url"]


def load_url(url: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return hub.load_state_dict_from_url(url, ...): its older name."""
    from ..hub import load_state_dict_from_url

    return load_state_dict_from_url(url, *args, **kwargs)


load_later(__name__, {"tqdm": ".progress"})
