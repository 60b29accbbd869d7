"""Recurrent, attention and embedding modules have PyTorch's repr, state, outputs and gradients."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastdist as fd
from tests.nn.sequence_models import FILE, MODELS, measure

TORCH = json.loads(FILE.read_text())


def test_the_file_has_all_models_and_no_others() -> None:
    assert TORCH.keys() == MODELS.keys()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("model", MODELS)
def test_a_module_is_what_pytorch_s_is(model: str) -> None:
    found, expected = measure(fd, model, MODELS[model]), TORCH[model]
    assert found["repr"] == expected["repr"]
    assert list(found["shapes"].items()) == list(expected["shapes"].items())
    for one, other in zip(found["outputs"], expected["outputs"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found["gradients"], expected["gradients"], rtol=1e-9, atol=1e-11)
