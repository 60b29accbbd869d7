"""GradScaler scales losses, skips steps whose gradients overflow, and adapts its factor."""

from __future__ import annotations

import pytest

import fastdist as fd


def made(**options: float) -> tuple[fd.nn.Linear, fd.optim.SGD, fd.amp.GradScaler]:
    model = fd.nn.Linear(1, 1, bias=False)
    with fd.no_grad():
        model.weight.fill_(1.0)
    optimizer = fd.optim.SGD(model.parameters(), lr=0.5)
    return model, optimizer, fd.amp.GradScaler("cpu", **options)  # type: ignore[arg-type]


def test_a_step_is_that_of_the_loss_without_the_factor() -> None:
    model, optimizer, scaler = made(init_scale=1024.0)
    scaler.scale(model(fd.ones(1, 1)).sum()).backward()
    assert model.weight.grad.item() == 1024.0
    scaler.unscale_(optimizer)
    assert model.weight.grad.item() == 1.0
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.item() == 0.5 and scaler.get_scale() == 1024.0


def test_an_infinite_gradient_leaves_the_step_out_and_shrinks_the_factor() -> None:
    model, optimizer, scaler = made(init_scale=1024.0)
    scaler.scale(model(fd.full((1, 1), float("inf"))).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert model.weight.item() == 1.0 and scaler.get_scale() == 512.0


def test_the_factor_grows_after_the_interval() -> None:
    model, optimizer, scaler = made(init_scale=4.0, growth_interval=2)
    scales = []
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(model(fd.ones(1, 1)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4.0, 8.0, 8.0, 16.0]


def test_a_state_dict_has_pytorch_s_keys_and_goes_on() -> None:
    _, _, scaler = made(init_scale=8.0)
    state = scaler.state_dict()
    assert [*state] == [
        "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker",
    ]  # fmt: skip
    _, _, other = made()
    other.load_state_dict(state)
    assert other.get_scale() == 8.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_calls_out_of_order_are_refused() -> None:
    model, optimizer, scaler = made()
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    scaler.scale(model(fd.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(ValueError, match=r"The growth factor must be > 1\.0"):
        fd.amp.GradScaler("cpu", growth_factor=1.0)


def test_several_losses_are_scaled_in_their_container_and_dtype() -> None:
    _, _, scaler = made(init_scale=2.0)
    one, (two,) = scaler.scale([fd.tensor(1.0), (fd.tensor([3.0], dtype=fd.float16),)])
    assert (one.item(), two.item(), two.dtype) == (2.0, 6.0, fd.float16)


def test_disabled_it_passes_all_through() -> None:
    model, optimizer, _ = made()
    scaler = fd.amp.GradScaler("cpu", enabled=False)
    loss = model(fd.ones(1, 1)).sum()
    assert scaler.scale(loss) is loss and scaler.state_dict() == {} and scaler.get_scale() == 1.0
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.item() == 0.5


def test_the_stage_of_an_optimizer_has_pytorchs_name() -> None:
    from fastdist.cuda.amp.grad_scaler import OptState

    p = fd.nn.Parameter(fd.ones(1))
    optimizer, scaler = fd.optim.SGD([p], lr=0.1), fd.amp.GradScaler("cpu")
    scaler.scale((p * 2).sum()).backward()
    scaler.unscale_(optimizer)
    assert scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED
    scaler.step(optimizer)
    assert scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.STEPPED
