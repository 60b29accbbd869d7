"""PyTorch's hub, which is not here: its names say what to do instead."""

from __future__ import annotations

from .core.missing import explain_missing, refusing

__all__ = ["download_url_to_file", "help", "list", "load", "load_state_dict_from_url"]

_NO_HUB = (
    "nothing is downloaded here: fetch the repository and the file of weights by yourself, import "
    "the model, and give load_state_dict what the file holds"
)
download_url_to_file = refusing(__name__, "download_url_to_file", _NO_HUB)
help = refusing(__name__, "help", _NO_HUB)
list = refusing(__name__, "list", _NO_HUB)
load = refusing(__name__, "load", _NO_HUB)
load_state_dict_from_url = refusing(__name__, "load_state_dict_from_url", _NO_HUB)

explain_missing(__name__)
