"""Every optimiser has rows for its formula, its options and its state dict."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from fastdist import optim
from tests.optim.option_rows import FORMULA_HELD_BY, OPTIONS
from tests.optim.test_formulas import BAD
from tests.optim.test_saving import ROWS

OPTIMISERS = [
    name
    for name in optim.__all__
    if inspect.isclass(getattr(optim, name)) and name != optim.Optimizer.__name__
]


def test_every_optimiser_has_a_row_for_its_formula() -> None:
    found = OPTIONS.keys() | FORMULA_HELD_BY.keys()
    missing = sorted(set(OPTIMISERS) - found)
    assert missing == [], "write their options into tests/optim/option_rows.py"
    assert sorted(found - set(OPTIMISERS)) == []


@pytest.mark.parametrize("name", FORMULA_HELD_BY)
def test_the_file_that_holds_the_formula_of_an_optimiser_makes_one(name: str) -> None:
    assert f"optim.{name}" in (Path(__file__).parent / FORMULA_HELD_BY[name]).read_text()


def test_every_optimiser_has_a_row_of_options_that_it_refuses() -> None:
    missing = sorted(set(OPTIMISERS) - {name for name, _, _ in BAD})
    assert missing == [], "write into BAD of tests/optim/test_formulas.py what they refuse"


def test_every_optimiser_has_a_row_for_its_state_dict() -> None:
    missing = sorted(set(OPTIMISERS) - {name for name, *_ in ROWS})
    assert missing == [], "write their keys into ROWS of tests/optim/test_saving.py"


@pytest.mark.parametrize("name", OPTIONS)
def test_a_row_has_every_option_that_changes_the_formula(name: str) -> None:
    # These options say how a step is computed, not its formula; test_formulas.py varies them.
    computed = {"params", "lr", "foreach", "fused", "capturable", "differentiable"}
    options = inspect.signature(getattr(optim, name)).parameters.keys() - computed
    assert sorted(options - OPTIONS[name].keys()) == []
