"""An alias of a module imports the same module object."""

from __future__ import annotations

import importlib
import pickle
import sys

import pytest

from fastdist.core.module_aliases import alias_modules


def test_both_names_lead_to_one_module() -> None:
    alias_modules({"fastdist.core.other_colours": "colorsys"})
    import colorsys

    assert importlib.import_module("fastdist.core.other_colours") is colorsys
    assert sys.modules["fastdist.core.other_colours"] is colorsys
    assert colorsys.__name__ == "colorsys" and colorsys.__spec__ is not None
    assert colorsys.__spec__.name == "colorsys", "the module's own spec stays"


def test_other_names_are_left_to_other_finders() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"fastdist\.core\.no_colours"):
        importlib.import_module("fastdist.core.no_colours")


def test_a_pickle_by_the_second_name_loads() -> None:
    alias_modules({"fastdist.core.other_fractions": "fractions"})
    by_alias = b"cfastdist.core.other_fractions\nFraction\n."
    assert pickle.loads(by_alias) is importlib.import_module("fractions").Fraction
