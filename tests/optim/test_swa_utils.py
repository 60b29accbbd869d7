"""Equal and moving averages of parameters, and statistics of modules that imitate batch norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, nn
from fastdist.optim import swa_utils

VALUES = [np.array([[1.0, -2.0]]), np.array([[4.0, 0.5]]), np.array([[-2.5, 3.0]])]


def model(value: Any) -> nn.Linear:
    made = nn.Linear(2, 1, bias=False, dtype=fastdist.float64)
    with fastdist.no_grad():
        made.weight.copy_(fastdist.tensor(value))
    return made


def averaged(**options: Any) -> swa_utils.AveragedModel:
    average = swa_utils.AveragedModel(model(VALUES[0]), **options)
    for value in VALUES:
        average.update_parameters(model(value))
    return average


def moving(decay: float) -> Any:
    average = VALUES[0]
    for value in VALUES[1:]:
        average = decay * average + (1 - decay) * value
    return average


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"avg_fn": swa_utils.get_swa_avg_fn()},
        {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
        {"use_buffers": True},
    ],
)
def test_the_average_of_all_is_their_mean(options: dict[str, Any]) -> None:
    average = averaged(**options)
    assert int(average.n_averaged) == 3
    np.testing.assert_allclose(average.module.weight.detach(), np.mean(VALUES, axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"avg_fn": swa_utils.get_ema_avg_fn(0.7)},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.7)},
    ],
)
def test_a_moving_average_forgets(options: dict[str, Any]) -> None:
    average = averaged(**options)
    np.testing.assert_allclose(average.module.weight.detach(), moving(0.7), rtol=1e-12)


def test_the_averaged_model_is_a_module_with_pytorchs_names() -> None:
    average = averaged()
    assert list(average.state_dict()) == ["n_averaged", "module.weight"]
    twin = swa_utils.AveragedModel(model(VALUES[1]))
    twin.load_state_dict(average.state_dict())
    x = fastdist.ones(1, 2, dtype=fastdist.float64)
    assert twin(x).item() == average(x).item() == pytest.approx(np.mean(VALUES, axis=0).sum())


def test_only_one_way_to_average_is_taken() -> None:
    with pytest.raises(AssertionError, match=r"^Only one of avg_fn and multi_avg_fn should be"):
        averaged(avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn())


@pytest.mark.parametrize("make", [swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn])
def test_a_decay_out_of_range_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"^Invalid decay value 1.5 provided. Please provide a"):
        make(1.5)


class Norm(nn.Module):
    """Averages its inputs; it has the attributes of a batch norm."""

    running_mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.momentum: float | None = 0.1
        self.register_buffer("running_mean", fastdist.zeros(()))
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        self.running_mean.zero_()
        self.batches = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.batches += 1
            share = 1.0 / self.batches if self.momentum is None else self.momentum
            self.running_mean += share * (x.mean() - self.running_mean)
        return x - self.running_mean


@pytest.mark.parametrize("as_pairs", [False, True])
def test_update_bn_takes_the_mean_of_all_batches(as_pairs: bool) -> None:
    norm = Norm()
    net = nn.Sequential(norm, nn.Linear(2, 1)).eval()
    net(fastdist.ones(3, 2))
    batches: list[Any] = [fastdist.full((3, 2), value) for value in (1.0, 2.0, 6.0)]
    swa_utils.update_bn([(batch, 0) for batch in batches] if as_pairs else batches, net)
    assert norm.running_mean.item() == pytest.approx(3.0)
    assert (norm.momentum, norm.training, net.training) == (0.1, False, False)


def test_update_bn_leaves_a_model_without_statistics_alone() -> None:
    net = nn.Linear(2, 1)
    swa_utils.update_bn(iter([None]), net)
    assert net.training


def test_buffers_follow_the_model_unless_they_are_averaged() -> None:
    class WithBuffer(nn.Module):
        mean: Tensor

        def __init__(self, value: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(fastdist.zeros(1))
            self.register_buffer("mean", fastdist.tensor([value]))

    follows, averages = (
        swa_utils.AveragedModel(WithBuffer(0.0), use_buffers=use) for use in (False, True)
    )
    for value in (2.0, 4.0):
        follows.update_parameters(WithBuffer(value))
        averages.update_parameters(WithBuffer(value))
    assert follows.module.mean.tolist() == [4.0]
    assert averages.module.mean.tolist() == [3.0]
