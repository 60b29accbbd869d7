"""Sample calls of products, losses and normalization, and of composites with other arguments."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from fastdist.namespace.names import words
from tests.ops.cases import F, bools, case, ints, plain
from tests.ops.reduce.reduction_cases import softmax

CLASSES = ints(0, 2, 1)
IMAGES = ints([[0, 2], [1, -100]])
WEIGHT = np.array([0.5, 1.0, 2.0])


def nll(likely, target, weight=None, ignored=-100, mean=True):
    """Return the negative log likelihood, summed sample by sample as its definition says."""
    total = weights = 0.0
    likely = np.moveaxis(likely, 1, -1).reshape(-1, likely.shape[1])
    for row, chosen in zip(likely, target.ravel()):
        if chosen != ignored:
            w = 1.0 if weight is None else weight[chosen]
            total, weights = total - w * row[chosen], weights + w
    return total / weights if mean else total


def smoothed(x, target, weight, smoothing):
    """Return the cross entropy of smoothed targets, divided by the total weight of the targets."""
    likely = np.log(softmax(x, 1))
    k = x.shape[1]
    mixed = np.eye(k)[target] * (1 - smoothing) + smoothing / k
    return -(likely * mixed * weight).sum() / weight[target].sum()


def layer_norm(x, n, weight=1.0, bias=0.0, eps=1e-5):
    axes = tuple(range(-n, 0))
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps) * weight + bias


def softplus(x):
    return np.log1p(np.exp(x))


def ends(x, *places):
    """Return the end indices of groups of rows, on the device of x."""
    return fd.tensor(places, dtype=fd.int32, device=x.device)


PRODUCTS = {
    "matmul": [
        case(lambda x, y: x @ y, np.matmul, (3, 4), (4, 2)),
        case(fd.matmul, np.matmul, (4,), (4,)),
        case(lambda x, y: x @ y, np.matmul, (2, 3, 4), (4,)),
        case(lambda x, y: x @ y, np.matmul, (3,), (2, 3, 4)),
        case(lambda x, y: x @ y, np.matmul, (2, 1, 3, 4), (5, 4, 2)),
        case(lambda x, y: x @ y, np.matmul, (3, 0), (0, 2)),
        case(lambda x, y: x @ y, np.matmul, (0, 4), (4, 2)),
    ],
    "mm": [case(lambda x, y: x.mm(y), np.matmul, (3, 4), (4, 2))],
    "bmm": [case(fd.bmm, np.matmul, (2, 3, 4), (2, 4, 2))],
    "mv": [case(lambda x, y: x.mv(y), np.matmul, (3, 4), (4,))],
    "dot": [case(lambda x, y: x.dot(y), np.dot, (4,), (4,))],
    "outer": [case(fd.outer, np.outer, (3,), (4,))],
    "inner": [case(fd.inner, np.inner, (2, 3), (4, 3))],
    "addmm": [
        case(
            lambda c, a, b: fd.addmm(c, a, b, beta=0.5, alpha=2),
            lambda c, a, b: 0.5 * c + 2 * a @ b,
            (2,),
            (3, 4),
            (4, 2),
        )
    ],
    "addmv": [case(lambda c, a, b: c.addmv(a, b), lambda c, a, b: c + a @ b, (3,), (3, 4), (4,))],
    "addr": [
        case(lambda c, a, b: c.addr(a, b), lambda c, a, b: c + np.outer(a, b), (3, 2), (3,), (2,))
    ],
    "baddbmm": [
        case(
            lambda c, a, b: c.baddbmm(a, b),
            lambda c, a, b: c + a @ b,
            (2, 3, 2),
            (2, 3, 4),
            (2, 4, 2),
        )
    ],
    "linear": [
        case(F.linear, lambda x, w, b: x @ w.T + b, (3, 4), (2, 4), (2,)),
        case(F.linear, lambda x, w: x @ w.T, (2, 3, 4), (2, 4)),
        case(F.linear, lambda x, w, b: x @ w.T + b, (4,), (2, 4), (2,)),
    ],
    "einsum": [
        case(lambda x, y: fd.einsum("ij,jk->ik", x, y), np.matmul, (3, 4), (4, 2)),
        case(
            lambda x, y: fd.einsum("bij,bkj->bik", x, y),
            lambda x, y: np.einsum("bij,bkj->bik", x, y),
            (2, 3, 4),
            (2, 5, 4),
        ),
        case(lambda x: fd.einsum("ii", x), np.trace, (3, 3)),
        case(lambda x: fd.einsum("ij->ji", x), np.transpose, (2, 3)),
        case(
            lambda x, y, z: fd.einsum("i,ij,j->", x, y, z),
            lambda x, y, z: x @ y @ z,
            (3,),
            (3, 2),
            (2,),
        ),
        case(
            lambda x, y: fd.einsum("...i,...i->...", x, y),
            lambda x, y: (x * y).sum(-1),
            (2, 3),
            (3,),
        ),
        case(
            lambda x, y: fd.einsum("ij,jk->kij", x, y),
            lambda x, y: np.einsum("ij,jk->kij", x, y),
            (2, 3),
            (3, 4),
        ),
    ],
    "grouped_mm": [
        case(
            lambda x, y: F.grouped_mm(x, y, offs=ends(x, 2, 2, 3)),
            lambda x, y: np.concatenate([x[:2] @ y[0], x[2:3] @ y[2], np.zeros((1, 2))]),
            (4, 3),
            (3, 3, 2),
        ),
        case(
            lambda x, y: F.grouped_mm(x, y, offs=ends(x, 1, 4)),
            lambda x, y: np.concatenate([x[0] @ y[:, :1], x[1] @ y[:, 1:4], np.zeros((4, 1))], 1),
            (2, 4, 3),
            (3, 5),
        ),
        case(
            lambda x, y: F.grouped_mm(x, y, offs=ends(x, 2, 2, 3)),
            lambda x, y: np.stack([x[:, :2] @ y[:2], np.zeros((2, 3)), x[:, 2:3] @ y[2:3]]),
            (2, 4),
            (4, 3),
        ),
        case(F.grouped_mm, np.matmul, (2, 3, 4), (2, 4, 2)),
    ],
    "tensordot": [
        case(
            lambda x, y: fd.tensordot(x, y, ([1, 0], [0, 1])),
            lambda x, y: np.tensordot(x, y, ([1, 0], [0, 1])),
            (2, 3, 4),
            (3, 2, 5),
        ),
        case(
            lambda x, y: fd.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), (2, 3), (3, 5)
        ),
    ],
}
LOSSES = {
    "nll_loss": [
        case(
            lambda x: F.nll_loss(x, fd.tensor(CLASSES, device=x.device)),
            lambda x: nll(x, CLASSES),
            (3, 3),
        ),
        case(
            lambda x: F.nll_loss(x, fd.tensor(CLASSES, device=x.device), reduction="none"),
            lambda x: -x[np.arange(3), CLASSES],
            (3, 3),
        ),
        case(
            lambda x: F.nll_loss(
                x, fd.tensor(CLASSES, device=x.device), fd.tensor(WEIGHT).to(x), ignore_index=2
            ),
            lambda x: nll(x, CLASSES, WEIGHT, 2),
            (3, 3),
        ),
        case(
            lambda x: F.nll_loss(x, fd.tensor(IMAGES, device=x.device), reduction="sum"),
            lambda x: nll(x, IMAGES, mean=False),
            (2, 3, 2),
        ),
        case(lambda x: F.nll_loss(x, fd.tensor(1, device=x.device)), lambda x: -x[1], (3,)),
    ],
    "cross_entropy": [
        case(
            lambda x: F.cross_entropy(x, fd.tensor(CLASSES, device=x.device)),
            lambda x: nll(np.log(softmax(x, 1)), CLASSES),
            (3, 4),
        ),
        case(
            lambda x: F.cross_entropy(x, fd.tensor(IMAGES, device=x.device)),
            lambda x: nll(np.log(softmax(x, 1)), IMAGES),
            (2, 3, 2),
        ),
        case(
            F.cross_entropy,
            lambda x, p: -(np.log(softmax(x, 1)) * p).sum() / (x.size // max(x.shape[1], 1)),
            (3, 4),
            (3, 4),
        ),
        case(
            lambda x: F.cross_entropy(
                x, fd.tensor(CLASSES, device=x.device), fd.tensor(WEIGHT).to(x), label_smoothing=0.3
            ),
            lambda x: smoothed(x, CLASSES, WEIGHT, 0.3),
            (3, 3),
        ),
        case(
            lambda x: F.cross_entropy(
                x, fd.tensor(CLASSES, device=x.device), label_smoothing=0.1, reduction="sum"
            ),
            lambda x: 3 * smoothed(x, CLASSES, np.ones(3), 0.1),
            (3, 3),
        ),
    ],
    "mse_loss": [
        case(F.mse_loss, lambda x, y: ((x - y) ** 2).mean(), (3, 4), (3, 4)),
        case(
            lambda x, y: F.mse_loss(x, y, reduction="none"), lambda x, y: (x - y) ** 2, (3, 4), (4,)
        ),
    ],
    "l1_loss": [
        case(
            lambda x, y: F.l1_loss(x, y, reduction="sum"),
            lambda x, y: np.abs(x - y).sum(),
            (3, 4),
            (3, 4),
        )
    ],
    "smooth_l1_loss": [
        case(
            lambda x, y: F.smooth_l1_loss(x, y, beta=0.7),
            lambda x, y: np.where(
                np.abs(x - y) < 0.7, (x - y) ** 2 / 1.4, np.abs(x - y) - 0.35
            ).mean(),
            (3, 4),
            (3, 4),
        )
    ],
    "huber_loss": [
        case(
            lambda x, y: F.huber_loss(x, y, delta=0.7),
            lambda x, y: np.where(
                np.abs(x - y) < 0.7, (x - y) ** 2 / 2, 0.7 * (np.abs(x - y) - 0.35)
            ).mean(),
            (3, 4),
            (3, 4),
        )
    ],
    "binary_cross_entropy": [
        case(
            F.binary_cross_entropy,
            lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)).mean(),
            (3, 4),
            (3, 4),
            low=0.1,
            high=0.9,
        )
    ],
    "binary_cross_entropy_with_logits": [
        case(
            F.binary_cross_entropy_with_logits,
            lambda x, y: (softplus(x) - x * y).mean(),
            (3, 4),
            (3, 4),
        ),
        case(
            lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w),
            lambda x, y, w: (w * y * softplus(-x) + (1 - y) * softplus(x)).mean(),
            (3, 4),
            (3, 4),
            (4,),
        ),
    ],
    "kl_div": [
        case(
            lambda x, y: F.kl_div(x, y, reduction="batchmean"),
            lambda x, y: (y * (np.log(y) - x)).sum() / len(x),
            (3, 4),
            (3, 4),
            low=0.1,
        ),
        case(
            lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
            lambda x, y: (np.exp(y) * (y - x)).sum(),
            (3, 4),
            (3, 4),
        ),
    ],
    "layer_norm": [
        case(
            lambda x, w, b: F.layer_norm(x, (4,), w, b),
            lambda x, w, b: layer_norm(x, 1, w, b),
            (3, 4),
            (4,),
            (4,),
            tolerance=1e-4,
        ),
        case(
            lambda x: F.layer_norm(x, (3, 2)), lambda x: layer_norm(x, 2), (2, 3, 2), tolerance=1e-4
        ),
    ],
}
CHOOSERS = {
    "div": [
        case(fd.div, np.divide, (3, 4), (3, 4), low=0.5),
        plain(
            lambda x, y: x.div(y, rounding_mode="floor"),
            np.floor_divide,
            ints(-7, 7, 8),
            ints(2, -2, 3),
        ),
        plain(
            lambda x, y: x.div(y, rounding_mode="trunc"),
            lambda x, y: np.trunc(x / y),
            ints(-7, 7, 8),
            ints(2, -2, 3),
        ),
    ],
    "round": [
        case(
            lambda x: x.round(decimals=1) * x, lambda x: np.round(x, 1) * x, np.array([0.52, 1.29])
        ),
        plain(
            lambda x: fd.round(x, decimals=-1), lambda x: np.round(x, -1), np.array([12.0, 27.0])
        ),
    ],
    "clamp": [
        case(lambda x, lo, hi: x.clamp(lo, hi), np.clip, (3, 4), np.array(-1.1), np.array(0.9)),
        case(lambda x: fd.clamp(x, -0.9, 1.1), lambda x: np.clip(x, -0.9, 1.1), (3, 4)),
    ],
    "clamp_min": [case(lambda x: x.clamp_min(0.1), lambda x: np.maximum(x, 0.1), (3, 4))],
    "clamp_max": [case(lambda x: fd.clamp_max(x, 0.1), lambda x: np.minimum(x, 0.1), (3, 4))],
    "logit": [
        case(
            lambda x: x.logit(0.2),
            lambda x: np.log(np.clip(x, 0.2, 0.8) / (1 - np.clip(x, 0.2, 0.8))),
            (3, 4),
            low=0.05,
            high=0.95,
        )
    ],
    "nan_to_num": [
        plain(
            lambda x: x.nan_to_num(1.0, 2.0),
            lambda x: np.array([1.0, 2.0, 5.0]),
            np.array([np.nan, np.inf, 5.0]),
        )
    ],
    "float_power": [case(fd.float_power, np.power, (3,), (3,), low=0.5)],
    "ldexp": [case(fd.ldexp, lambda x, i: x * 2.0**i, (3,), ints(0, 3, -2))],
    "lcm": [plain(fd.lcm, np.lcm, ints(4, -6, 0), ints(6, 4, 3))],
    "sgn": [case(lambda x: x.sgn() * x, np.abs, (3, 4))],
    "positive": [case(lambda x: x.positive(), lambda x: x, (3,))],
    "gelu": [
        case(
            lambda x: F.gelu(x, "tanh"),
            lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
            (3, 4),
        )
    ],
    "prelu": [
        case(F.prelu, lambda x, w: np.where(x > 0, x, w[:, None] * x), (2, 3, 4), (3,)),
        case(fd.prelu, lambda x, w: np.where(x > 0, x, w * x), (2, 3), (1,)),
    ],
    "dropout": [
        case(lambda x: F.dropout(x, 0.4, training=False), lambda x: x, (3, 4)),
        case(lambda x: F.dropout(x, 1.0), lambda x: x * 0, (3, 4)),
    ],
    "isclose": [
        plain(
            lambda x, y: fd.isclose(x, y, equal_nan=True),
            lambda x, y: np.isclose(x, y, equal_nan=True),
            np.array([1.0, np.nan, np.inf, 2.0]),
            np.array([1.0 + 1e-6, np.nan, np.inf, 3.0]),
        )
    ],
    **{
        name: [
            plain(
                lambda x, name=name: getattr(x, name)(),
                lambda x, dtype=dtype: x.astype(dtype),
                ints(0, 1, 2),
            )
        ]
        for name, dtype in {
            "double": "f8",
            "float": "f4",
            "half": "f2",
            "long": "i8",
            "int": "i4",
            "short": "i2",
            "char": "i1",
            "byte": "u1",
            "bool": "?",
        }.items()
    },
    "type_as": [
        plain(lambda x, y: x.type_as(y), lambda x, y: x.astype(bool), ints(0, 1), bools("10"))
    ],
    "cpu": [case(lambda x: x.cpu() * 2, lambda x: 2 * x, (3,))],
}
CASES = {**PRODUCTS, **LOSSES, **CHOOSERS}
COVERED_BY = {
    "linear_kernel": "linear",
    "without_axes": "matmul",
    "nll_kernel": "nll_loss",
    "nll_gradient": "nll_loss",
    "cross_entropy_losses": "cross_entropy",
    "cross_entropy_rows": "cross_entropy",
    "cross_entropy_rows_gradient": "cross_entropy",
    "layer_norm_rows": "layer_norm",
    "layer_norm_gradient": "layer_norm",
    "rms_norm_rows": "rms_norm",
}
# Composites whose inputs have no gradients: test_casting.py and test_random.py call them.
ELSEWHERE = words(
    """
    allclose bernoulli bernoulli_ broadcast_shapes can_cast cuda equal get_rng_state is_complex
    is_floating_point is_nonzero is_same_size is_signed is_tensor normal normal_ numel
    promote_types rand rand_like randint randint_like randn randn_like random_ randperm range
    result_type set_rng_state type uniform_
    """
)
