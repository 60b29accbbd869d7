"""Optimisers update the real and the imaginary parts of complex parameters separately."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

START = fd.tensor([[1 + 2j, 3 - 1j], [-0.5j, 0.25]], dtype=fd.complex128)
MAKERS: dict[str, Any] = {
    "SGD": lambda p: fd.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: fd.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: fd.optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW": lambda p: fd.optim.AdamW(p, lr=0.1, maximize=True),
    "Adamax": lambda p: fd.optim.Adamax(p, lr=0.1),
    "Adadelta": lambda p: fd.optim.Adadelta(p, lr=0.1, weight_decay=0.1),
    "Adagrad": lambda p: fd.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5),
    "ASGD": lambda p: fd.optim.ASGD(p, lr=0.1),
    "NAdam": lambda p: fd.optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: fd.optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: fd.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5),
    "Rprop": lambda p: fd.optim.Rprop(p, lr=0.1),
}


def stepped(make: Any, leaf: Any, complex_of: Any) -> Any:
    optimizer = make([leaf])
    for _ in range(4):
        optimizer.zero_grad()
        ((complex_of(leaf) * (1 + 0.5j) - 1j).abs() ** 3).sum().backward()
        optimizer.step()
    return complex_of(leaf).detach()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", MAKERS)
def test_complex_parameters_are_stepped_as_their_parts_are(name: str) -> None:
    ours = stepped(MAKERS[name], START.clone().requires_grad_(), lambda p: p)
    pairs = fd.view_as_real(START).clone().requires_grad_()
    expected = stepped(MAKERS[name], pairs, fd.view_as_complex)
    assert fd.allclose(ours, expected, rtol=1e-12) and not fd.allclose(ours, START)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("is_strided", [False, True])
def test_lbfgs_takes_a_complex_number_for_two_real_ones(
    search: str | None, is_strided: bool
) -> None:
    found = []
    for is_complex in (False, True):
        z = (START.t() if is_strided else START).clone() if is_complex else fd.view_as_real(START)
        z = (z if is_complex else z.clone()).requires_grad_()
        real = fd.tensor([2.0, -1.0], dtype=fd.float64, requires_grad=True)
        optimizer = fd.optim.LBFGS([z, real], lr=0.5, max_iter=6, line_search_fn=search)

        def closure(z: Any = z, real: Any = real, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            w = z if z.is_complex() else fd.view_as_complex(z)
            w = w.t() if z.is_complex() and is_strided else w
            loss = ((w * (1 + 0.5j) - 1j).abs() ** 4).sum() + (real**2).sum() * w.real.sum() ** 2
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        assert optimizer.state[z]["d"].dtype is fd.float64 and optimizer.state[z]["d"].numel() == 10
        closing = optimizer.step(closure)
        w = z.detach() if z.is_complex() else fd.view_as_complex(z.detach())
        found.append((closing.item(), w.t() if is_complex and is_strided else w, real.detach()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    fd.testing.assert_close(found[0][1], found[1][1])
    fd.testing.assert_close(found[0][2], found[1][2])


def test_states_are_complex_and_come_back() -> None:
    leaf = START.clone().requires_grad_()
    optimizer = fd.optim.Adam([leaf], lr=0.1)
    leaf.abs().sum().backward()
    optimizer.step()
    assert optimizer.state[leaf]["exp_avg_sq"].dtype is fd.complex128
    again = fd.optim.Adam([leaf], lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    assert fd.equal(again.state[leaf]["exp_avg"], optimizer.state[leaf]["exp_avg"])


@pytest.mark.parametrize("make", [fd.optim.Adafactor, fd.optim.SparseAdam])
def test_what_has_no_step_of_complex_numbers_says_so(make: Any) -> None:
    with pytest.raises(RuntimeError, match="does not support complex parameters"):
        make([fd.tensor([1 + 2j], requires_grad=True)], lr=0.1)
