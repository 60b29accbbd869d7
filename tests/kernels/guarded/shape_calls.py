"""Calls with several tensors whose shapes must match; sometimes they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fastdist as fd

from .draw import Call, Draw, kind, with_backward

functional = fd.nn.functional


def _lstm(x: Any, h: Any, c: Any, *params: Any) -> Any:
    return fd.lstm(x, (h, c), params, True, 1, 0.0, False, False, False)


def _gru(x: Any, h: Any, *params: Any) -> Any:
    return fd.gru(x, h, params, True, 1, 0.0, False, False, False)


def _packed_lstm(x: Any, h: Any, c: Any, *params: Any) -> Any:
    return fd.lstm(x, fd.tensor([2, 2, 1]), (h, c), params, True, 1, 0.0, False, False)


def _lstm_cell(x: Any, h: Any, c: Any, *params: Any) -> Any:
    return fd.lstm_cell(x, (h, c), *params)


def _heads(q: Any, k: Any, v: Any, w: Any, b: Any, out: Any, bias: Any) -> Any:
    attend = functional.multi_head_attention_forward
    return attend(q, k, v, 4, 2, w, b, None, None, False, 0.0, out, bias, training=False)[0]


def _optimiser_step(weight: Any, grad: Any) -> Any:
    one = fd.nn.Parameter(weight.detach())
    one.grad = grad
    fd.optim.Adam([one], lr=0.1).step()
    return one.detach()


_FORMS: dict[str, tuple[Callable[..., Any], list[Sequence[int]]]] = {
    "lstm": (_lstm, [(3, 2, 3), (1, 2, 4), (1, 2, 4), (16, 3), (16, 4), (16,), (16,)]),
    "packed lstm": (_packed_lstm, [(5, 3), (1, 2, 4), (1, 2, 4), (16, 3), (16, 4), (16,), (16,)]),
    "gru": (_gru, [(3, 2, 3), (1, 2, 4), (12, 3), (12, 4), (12,), (12,)]),
    "lstm_cell": (_lstm_cell, [(2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,)]),
    "gru_cell": (fd.gru_cell, [(2, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)]),
    "rnn_tanh_cell": (fd.rnn_tanh_cell, [(2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)]),
    "attention of heads": (_heads, [(3, 2, 4)] * 3 + [(12, 4), (12,), (4, 4), (4,)]),
    "attention": (functional.scaled_dot_product_attention, [(2, 3, 4)] * 3 + [(3, 3)]),
    "batch_norm": (functional.batch_norm, [(2, 3, 5), (3,), (3,), (3,), (3,)]),
    "instance_norm": (functional.instance_norm, [(2, 3, 5), (3,), (3,), (3,), (3,)]),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (5,), w, b), [(3, 5), (5,), (5,)]),
    "group_norm": (lambda x, w, b: functional.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "rms_norm": (lambda x, w: functional.rms_norm(x, (5,), w), [(3, 5), (5,)]),
    "prelu": (functional.prelu, [(2, 3, 4), (3,)]),
    "bilinear": (functional.bilinear, [(5, 3), (5, 4), (2, 3, 4), (2,)]),
    "linear": (functional.linear, [(5, 3), (2, 3), (2,)]),
    "conv1d": (functional.conv1d, [(2, 3, 9), (4, 3, 3), (4,)]),
    "conv2d": (functional.conv2d, [(2, 3, 6, 6), (4, 3, 3, 3), (4,)]),
    "conv_transpose2d": (functional.conv_transpose2d, [(2, 3, 5, 5), (3, 4, 2, 2), (4,)]),
    "addmm": (fd.addmm, [(3, 4), (3, 5), (5, 4)]),
    "baddbmm": (fd.baddbmm, [(2, 3, 4), (2, 3, 5), (2, 5, 4)]),
    "addmv": (fd.addmv, [(3,), (3, 4), (4,)]),
    "addr": (fd.addr, [(3, 4), (3,), (4,)]),
    "addcmul": (fd.addcmul, [(3, 4), (3, 4), (3, 4)]),
    "lerp": (fd.lerp, [(3, 4), (3, 4), (3, 4)]),
    "solve": (fd.linalg.solve, [(3, 3), (3, 2)]),
    "cholesky_solve": (fd.cholesky_solve, [(3, 2), (3, 3)]),
    "mse_loss": (functional.mse_loss, [(5, 3), (5, 3)]),
    "kl_div": (functional.kl_div, [(5, 3), (5, 3)]),
    "cosine_similarity": (functional.cosine_similarity, [(5, 3), (5, 3)]),
    "triplet_margin_loss": (functional.triplet_margin_loss, [(5, 3)] * 3),
    "gaussian_nll_loss": (functional.gaussian_nll_loss, [(5, 3)] * 3),
    "soft cross_entropy": (functional.cross_entropy, [(5, 3), (5, 3), (3,)]),
    "pairwise_distance": (functional.pairwise_distance, [(5, 3), (5, 3)]),
    "optimiser step": (_optimiser_step, [(5, 3), (5, 3)]),
    "where": (lambda x, y, z: fd.where(x > 2, y, z), [(3, 4)] * 3),
    "out of add": (lambda x, y, z: fd.add(x, y, out=z), [(3, 4)] * 3),
    "copy": (lambda x, y: x.detach().copy_(y), [(3, 4), (3, 4)]),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 2, y), [(3, 4), (12,)]),
    "einsum": (lambda x, y: fd.einsum("bij,bjk->bik", x, y), [(2, 3, 4), (2, 4, 5)]),
    "kron": (fd.kron, [(2, 3), (3, 2)]),
    "complex": (fd.complex, [(3, 4), (3, 4)]),
}  # fmt: skip


@kind
def shapes(draw: Draw) -> Call:
    call, wanted = _FORMS[draw.pick(list(_FORMS))]
    given = [list(shape) for shape in wanted]
    if not draw.chance(0.1):
        shape = draw.pick(given)
        change = draw.number(0, 4)
        if change == 0 and len(shape) > 1:
            shape.pop(draw.random.randrange(len(shape)))
        elif change == 1:
            shape.insert(draw.number(0, len(shape)), draw.pick([1, 2]))
        else:
            shape[draw.random.randrange(len(shape))] += draw.pick([-1, 1, 5, 100])
        shape[:] = [max(n, 0) for n in shape]
    tensors = [draw.tensor(*shape, dtype="f4", grad=0.3) for shape in given]
    return Call(with_backward(lambda: call(*tensors), *tensors))
