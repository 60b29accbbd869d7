"""PyTorch's older module for downloading files of weights; `hub` is the newer one."""

from __future__ import annotations

from typing import Any

from ..core.folded_frames import folds
from ..core.missing import load_later

__all__ = ["load_url"]


@folds
def load_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Return hub.load_state_dict_from_url(url, ...), under its older name."""
    from ..hub import load_state_dict_from_url

    return load_state_dict_from_url(
        url, model_dir, map_location, progress, check_hash, file_name, weights_only
    )


load_later(__name__, {"tqdm": ".progress"})
