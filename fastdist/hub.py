"""PyTorch's hub, which is not here: its names say what to do instead."""

from __future__ import annotations

from .core.missing import NO_HUB, explain_missing, refusing

__all__ = ["download_url_to_file", "help", "list", "load", "load_state_dict_from_url"]

download_url_to_file = refusing(__name__, "download_url_to_file", NO_HUB)
help = refusing(__name__, "help", NO_HUB)
list = refusing(__name__, "list", NO_HUB)
load = refusing(__name__, "load", NO_HUB)
load_state_dict_from_url = refusing(__name__, "load_state_dict_from_url", NO_HUB)

explain_missing(__name__)
