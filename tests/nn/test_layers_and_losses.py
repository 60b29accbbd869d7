"""Layers, activations and losses: values, initial values, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import nn
from fastdist.nn import functional as F


def test_linear_is_x_times_the_transposed_weight_plus_bias() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": fastdist.tensor([[2.0, 3.0]]), "bias": fastdist.tensor([1.0])})
    assert layer(fastdist.tensor([[1.0, 1.0], [0.0, 2.0]])).tolist() == [[6.0], [7.0]]


def test_indices_of_classes_that_are_no_integers_are_told_how_to_be() -> None:
    with pytest.raises(RuntimeError, match=r"a float32 target holds probabilities: cast .* \.long"):
        F.cross_entropy(fastdist.ones(2, 3), fastdist.tensor([0.0, 1.0]))


def test_linear_takes_any_number_of_axes() -> None:
    assert nn.Linear(3, 5)(fastdist.ones(2, 4, 3)).shape == (2, 4, 5)
    assert nn.Linear(3, 5)(fastdist.ones(3)).shape == (5,)


def test_linear_begins_within_one_over_the_root_of_its_inputs() -> None:
    layer = nn.Linear(100, 200)
    values = layer.weight.detach().numpy()
    assert np.abs(values).max() <= 0.1
    # The standard deviation of a uniform distribution within +-b is b / sqrt(3).
    assert values.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert np.abs(layer.bias.detach().numpy()).max() <= 0.1


def test_manual_seed_makes_a_model_the_same_again() -> None:
    fastdist.manual_seed(3)
    first = nn.Linear(4, 4).weight.tolist()
    fastdist.manual_seed(3)
    assert nn.Linear(4, 4).weight.tolist() == first


def test_linear_takes_a_dtype() -> None:
    assert nn.Linear(2, 2, dtype=fastdist.float64).bias.dtype is fastdist.float64


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.ReLU(), [0.0, 0.0, 2.0]),
        (nn.Tanh(), [-0.761594176, 0.0, 0.964027584]),
        (nn.Sigmoid(), [0.268941432, 0.5, 0.880797029]),
        (nn.GELU(), [-0.158655256, 0.0, 1.954499722]),
        (nn.GELU("tanh"), [-0.158808023, 0.0, 1.954597712]),
        (nn.SiLU(), [-0.268941432, 0.0, 1.761594176]),
        (nn.LeakyReLU(), [-0.01, 0.0, 2.0]),
        (nn.Softmax(0), [0.042010065, 0.114195198, 0.843794703]),
        (nn.LogSoftmax(0), [-3.169846058, -2.169846058, -0.169846028]),
        (nn.Identity(1, anything=2), [-1.0, 0.0, 2.0]),
    ],
)
def test_activations(module: nn.Module, expected: list[float]) -> None:
    out = module(fastdist.tensor([-1.0, 0.0, 2.0]))
    assert out.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("module", [nn.ReLU(inplace=True), nn.SiLU(inplace=True)])
def test_inplace_activations_write_over_their_input(module: nn.Module) -> None:
    x = fastdist.tensor([-1.0, 2.0])
    assert module(x) is x
    assert x.tolist() != [-1.0, 2.0]


@pytest.mark.parametrize(("axes", "axis"), [(1, 0), (2, 1), (3, 0), (4, 1)])
def test_softmax_without_dim_takes_the_axis_of_classes(axes: int, axis: int) -> None:
    x = fastdist.ones((2,) * axes)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprec"):
        found = nn.Softmax()(x)
    assert found.sum(axis).tolist() == fastdist.ones((2,) * (axes - 1)).tolist()


@pytest.mark.parametrize("layer", [nn.LayerNorm, nn.RMSNorm])
def test_norms_take_a_length_of_numpy(layer: Any) -> None:
    assert repr(layer(np.int64(3))) == repr(layer(3))


def test_layer_norm_brings_rows_to_mean_0_and_deviation_1() -> None:
    layer = nn.LayerNorm(3)
    with fastdist.no_grad():
        layer.bias.fill_(1.0)
    out = layer(fastdist.tensor([[1.0, 2.0, 3.0]]))
    assert out.tolist()[0] == pytest.approx([-0.22473562, 1.0, 2.22473574], abs=1e-6)


def test_layer_norm_may_lack_weight_and_bias() -> None:
    assert list(nn.LayerNorm(3, elementwise_affine=False).parameters()) == []
    names = [name for name, _ in nn.LayerNorm(3, bias=False).named_parameters()]
    assert names == ["weight"]


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_may_look_at_nothing_gets_zeros_and_gradients_without_nan(kind: str) -> None:
    query, key, value = (fastdist.rand(3, 2, requires_grad=True) for _ in range(3))
    allowed = fastdist.tensor([[True, False, True], [False] * 3, [True] * 3])
    mask = allowed
    if kind == "float":
        mask = fastdist.zeros(3, 3).masked_fill(~allowed, -math.inf)
    out = nn.functional.scaled_dot_product_attention(query, key, value, mask)
    out.sum().backward()
    assert out[1].tolist() == [0.0, 0.0] and query.grad[1].tolist() == [0.0, 0.0]
    assert all(bool(x.grad.isfinite().all()) for x in (query, key, value))
    scores = (query[0] @ key.T / math.sqrt(2))[[0, 2]].softmax(0)
    assert np.allclose(out[0].detach().numpy(), (scores @ value[[0, 2]]).detach().numpy())


def test_dropout_thins_out_in_training_only() -> None:
    fastdist.manual_seed(0)
    layer = nn.Dropout(0.25)
    x = fastdist.ones(1000)
    values = layer(x).numpy()
    assert sorted(set(values.tolist())) == pytest.approx([0.0, 4 / 3])
    assert 0.70 < (values > 0).mean() < 0.80
    assert layer.eval()(x).tolist() == x.tolist()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        nn.Dropout(1.5)


def test_embedding_returns_rows_and_learns_only_those() -> None:
    table = nn.Embedding(4, 2, padding_idx=0)
    out = table(fastdist.tensor([[1, 3], [0, 1]]))
    assert out.shape == (2, 2, 2)
    assert out[1, 0].tolist() == [0.0, 0.0]
    out.sum().backward()
    assert table.weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]


def test_a_pretrained_embedding_is_frozen_unless_told_otherwise() -> None:
    rows = fastdist.tensor([[1.0, 2.0]])
    assert not nn.Embedding.from_pretrained(rows).weight.requires_grad
    assert nn.Embedding.from_pretrained(rows, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match=r"^Padding_idx must be within num_embeddings"):
        nn.Embedding(2, 2, padding_idx=2)


def test_flatten_and_unflatten_undo_each_other() -> None:
    x = fastdist.ones(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Unflatten(1, (3, 4))(nn.Flatten()(x)).shape == (2, 3, 4)


X = [[1.0, 2.0, 0.5], [0.1, -1.0, 3.0]]


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        (nn.L1Loss(), [[0.0] * 3] * 2, 1.266666651),
        (nn.MSELoss(), [[0.0] * 3] * 2, 2.543333292),
        (nn.MSELoss(reduction="sum"), [[0.0] * 3] * 2, 15.260000229),
        (nn.CrossEntropyLoss(), [1, 2], 0.267571509),
        (nn.CrossEntropyLoss(label_smoothing=0.1), [1, 2], 0.424238205),
        (nn.CrossEntropyLoss(ignore_index=2), [1, 2], 0.464368790),
        (nn.CrossEntropyLoss(weight=fastdist.tensor([1.0, 2.0, 3.0])), [1, 2], 0.228212044),
        (nn.NLLLoss(), [0, 1], 0.0),
        (nn.BCEWithLogitsLoss(), [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 1.336752295),
        (
            nn.BCEWithLogitsLoss(pos_weight=fastdist.tensor(2.0)),
            [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
            1.686852098,
        ),
    ],
)
def test_losses(loss: nn.Module, target: list[object], expected: float) -> None:
    assert loss(fastdist.tensor(X), fastdist.tensor(target)).item() == pytest.approx(expected)


def test_the_weights_of_a_loss_move_with_it() -> None:
    loss = nn.CrossEntropyLoss(weight=fastdist.ones(3))
    assert loss.double().weight.dtype is fastdist.float64


def test_the_mean_of_no_samples_is_nan_and_that_of_a_lone_number_the_number() -> None:
    functional = fastdist.nn.functional
    none = fastdist.zeros(0, 3)
    assert functional.cross_entropy(none, none).isnan()
    assert functional.kl_div(none, none, reduction="batchmean").isnan()
    lone = fastdist.tensor(0.5)
    expected = 0.5 * math.log(0.5) - 0.25
    found = functional.kl_div(lone, lone, reduction="batchmean")
    assert math.isclose(found.item(), expected, rel_tol=1e-6)


LOSSES = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss]


@pytest.mark.parametrize("loss", [*LOSSES, lambda x, y: F.smooth_l1_loss(x, y, beta=0.0)])
def test_a_loss_warns_its_caller_once_of_a_target_that_it_broadcasts(
    loss: Callable[..., fastdist.Tensor],
) -> None:
    text = (
        r"^Using a target size \(fastdist.Size\(\[3\]\)\) that is different to the input size "
        r"\(fastdist.Size\(\[3, 1\]\)\). This will likely lead to incorrect results due to "
        r"broadcasting. Please ensure they have the same size.$"
    )
    with pytest.warns(UserWarning, match=text) as told:
        loss(fastdist.ones(3, 1), fastdist.zeros(3))
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_refuses_a_number_as_target(loss: Callable[..., fastdist.Tensor]) -> None:
    loss(fastdist.ones(2), fastdist.ones(2))
    with pytest.raises(TypeError, match=r"'target' \(position 2\) must be Tensor, not float 1.0"):
        loss(fastdist.ones(2), 1.0)


def test_a_loss_leaves_its_reduction_s_word_to_its_function() -> None:
    given, target = fastdist.randn(3, 4).log_softmax(1), fastdist.rand(3, 4)
    found = fastdist.nn.KLDivLoss(reduction="batchmean")(given, target)
    assert found.item() == F.kl_div(given, target, reduction="batchmean").item()
    assert fastdist.nn.MSELoss(reduction="batchmean").reduction == "batchmean"
    with pytest.raises(ValueError, match="batchmean is not a valid value for reduction"):
        fastdist.nn.MSELoss(reduction="batchmean")(given, target)
