"""PyTorch's Node names, against the table with which fastdist's names are compared."""

from __future__ import annotations

import pytest

from ..dispatch.node_names import CALLS, names_in


@pytest.mark.interop("torch")
@pytest.mark.filterwarnings("ignore")
def test_the_table_of_names_of_nodes_is_pytorchs() -> None:
    import torch

    names = names_in(torch)
    found = {text: type(eval(text, dict(names)).grad_fn).__name__ for text in CALLS}
    assert found == CALLS
