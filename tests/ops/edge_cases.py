"""Sample calls on tensors without elements or without axes that other samples do not provide.

tests/ops/test_table_edges.py takes the samples of the whole table and sets sizes to 0, or removes
all axes. This file has the remaining calls: those whose arguments contain sizes or indices, and
those whose inputs are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from tests.ops import function_edges
from tests.ops.cases import Case, F, case, plain
from tests.ops.fft import fourier_edges
from tests.ops.linalg import linalg_edges
from tests.ops.nn import image_edges

NO_INTS = np.zeros(0, np.int64)
NO_ROWS = np.zeros((0, 3), np.int64)
NO_BOOLS = np.zeros((0, 3), bool)
ZERO = np.array(0)
TRUE = np.array(True)
NAN = np.array(np.nan)

CASTS = {
    "double": "f8", "float": "f4", "half": "f2", "long": "i8", "int": "i4", "short": "i2",
    "char": "i1", "byte": "u1", "bool": "?",
}  # fmt: skip


def casts(given: np.ndarray) -> dict[str, list[Case]]:
    return {
        name: [
            plain(
                lambda x, name=name: getattr(x, name)(),
                lambda x, dtype=dtype: x.astype(dtype),
                given,
            )
        ]
        for name, dtype in CASTS.items()
    }


EMPTY: dict[str, list[Case]] = {
    **fourier_edges.EMPTY,
    **function_edges.EMPTY,
    **image_edges.EMPTY,
    **linalg_edges.EMPTY,
    **casts(NO_ROWS),
    "all": [plain(lambda x: x.all(), np.all, NO_BOOLS)],
    "any": [plain(lambda x: x.any(1), lambda x: x.any(1), NO_BOOLS)],
    "count_nonzero": [plain(lambda x: x.count_nonzero(0), lambda x: np.zeros(3), NO_ROWS)],
    "unique": [plain(lambda x: x.unique(), np.unique, NO_INTS)],
    "searchsorted": [plain(fd.searchsorted, np.searchsorted, np.zeros(0), np.ones((2, 2)))],
    "bucketize": [
        plain(fd.bucketize, lambda x, s: np.searchsorted(s, x), np.zeros((0, 2)), np.ones(3))
    ],
    "bincount": [plain(lambda x: x.bincount(), lambda x: x, NO_INTS)],
    "expand": [case(lambda x: x.expand(2, 0, 3), lambda x: np.zeros((2, 0, 3)), (1, 3))],
    "broadcast_to": [case(lambda x: x.broadcast_to((0, 3)), lambda x: np.zeros((0, 3)), (3,))],
    "broadcast_tensors": [
        case(lambda x, y: fd.broadcast_tensors(x, y)[0], lambda x, y: y[:, :0], (0,), (2, 1))
    ],
    "unflatten": [case(lambda x: x.unflatten(1, (2, 0)), lambda x: np.zeros((3, 2, 0)), (3, 0))],
    "view_as": [case(lambda x, y: x.view_as(y), lambda x, y: y, (0, 3), (3, 0))],
    "reshape_as": [case(lambda x, y: x.reshape_as(y), lambda x, y: y, (0, 3), (0,))],
    "unbind": [case(lambda x: x.unbind(1)[0], lambda x: x[:, 0], (0, 2))],
    "gather": [case(lambda x, i: x.gather(0, i), lambda x, i: np.zeros((0, 3)), (2, 3), NO_ROWS)],
    "take_along_dim": [
        case(
            lambda x, i: fd.take_along_dim(x, i, 0), lambda x, i: np.zeros((0, 3)), (2, 3), NO_ROWS
        )
    ],
    "scatter": [case(lambda x, i: x.scatter(0, i, 5.0), lambda x, i: x, (2, 3), NO_ROWS)],
    "scatter_add": [
        case(lambda x, i, s: x.scatter_add(0, i, s), lambda x, i, s: x, (2, 3), NO_ROWS, (0, 3))
    ],
    "index_copy": [
        case(lambda x, i, s: x.index_copy(0, i, s), lambda x, i, s: x, (2, 3), NO_INTS, (0, 3))
    ],
    "take": [case(lambda x, i: x.take(i), lambda x, i: np.zeros(0), (2, 3), NO_INTS)],
    "index_put_": [
        case(
            lambda x, i, v: x.clone().index_put_((i,), v),
            lambda x, i, v: x,
            (2, 3),
            NO_INTS,
            (0, 3),
        )
    ],
    "nonzero": [plain(lambda x: x.nonzero(), np.argwhere, NO_BOOLS)],
    "argwhere": [plain(lambda x: x.argwhere(), np.argwhere, NO_BOOLS)],
    "where": [case(lambda x, m: fd.where(m, x, 1.0), lambda x, m: x, (0, 3), NO_BOOLS)],
    "masked_fill": [case(lambda x, m: x.masked_fill(m, 2.0), lambda x, m: x, (0, 3), NO_BOOLS)],
    "one_hot": [plain(lambda i: F.one_hot(i, 4), lambda i: np.zeros((0, 4)), NO_INTS)],
    "nll_loss": [
        case(
            lambda x: F.nll_loss(x, fd.tensor(NO_INTS, device=x.device), reduction="sum"),
            lambda x: np.zeros(()),
            (0, 3),
        )
    ],
    "round": [case(lambda x: x.round(decimals=1), lambda x: x, (0, 3))],
    "nan_to_num": [case(lambda x: x.nan_to_num(1.0), lambda x: x, (0, 3))],
    "ldexp": [case(fd.ldexp, lambda x, i: x, (0, 3), NO_ROWS)],
    "lcm": [plain(fd.lcm, np.lcm, NO_INTS, NO_INTS)],
    "isclose": [plain(fd.isclose, np.isclose, np.zeros((0, 3)), np.zeros(3))],
    "type_as": [plain(lambda x, y: x.type_as(y), lambda x, y: x.astype(bool), NO_INTS, TRUE)],
    "nansum": [case(lambda x: x.nansum(0), lambda x: x.sum(0), (0, 3))],
    "nanmean": [case(lambda x: x.nanmean(1), lambda x: np.zeros(0), (0, 3))],
    "atleast_1d": [case(fd.atleast_1d, np.atleast_1d, (0,))],
    "topk": [case(lambda x: x.topk(0).values, lambda x: x[:, :0], (3, 4))],
    "sum_to_size": [case(lambda x: x.sum_to_size(1, 0), lambda x: np.zeros((1, 0)), (3, 0))],
    "narrow": [case(lambda x: x.narrow(1, 1, 0), lambda x: x[:, :0], (3, 4))],
    "narrow_copy": [case(lambda x: x.narrow_copy(1, 1, 0), lambda x: x[:, :0], (3, 4))],
    "split": [case(lambda x: x.split(2)[0], lambda x: x, (0, 3))],
    "split_with_sizes": [
        case(lambda x: x.split_with_sizes([0, 4], 1)[0], lambda x: x[:, :0], (3, 4))
    ],
    "layer_norm": [case(lambda x: F.layer_norm(x, (3,)), lambda x: x, (0, 3))],
    "rms_norm": [case(lambda x: F.rms_norm(x, (3,)), lambda x: x, (0, 3))],
}
# Samples (op, index) whose arguments contain a size, so that this size cannot be set to 0.
NAMES_THE_SIZE = {
    ("logsumexp", 3), ("topk", 0), ("topk", 1), ("topk", 2), ("sum_to_size", 0), ("narrow", 0),
    ("narrow_copy", 0),
    ("broadcast_tensors", 0), ("split", 0), ("split", 1), ("nll_loss", 3), ("layer_norm", 0),
    ("layer_norm", 1), ("split_with_sizes", 0), ("rms_norm", 0), ("rms_norm", 1),
    ("grouped_mm", 0), ("grouped_mm", 1), ("grouped_mm", 2),
    *fourier_edges.NAMES_THE_SIZE, *function_edges.NAMES_THE_SIZE, *linalg_edges.NAMES_THE_SIZE,
}  # fmt: skip

SCALAR: dict[str, list[Case]] = {
    **function_edges.SCALAR,
    **linalg_edges.SCALAR,
    **casts(ZERO),
    "all": [plain(lambda x: x.all(0), np.all, TRUE)],
    "any": [plain(lambda x: x.any(), np.any, TRUE)],
    "count_nonzero": [plain(lambda x: x.count_nonzero(), np.count_nonzero, TRUE)],
    "logsumexp": [case(lambda x: x.logsumexp(0), lambda x: x, ())],
    "argsort": [plain(lambda x: x.argsort(), lambda x: ZERO, ())],
    "msort": [case(fd.msort, lambda x: x, ())],
    "topk": [case(lambda x: x.topk(1).values, lambda x: x, ())],
    "unique": [plain(lambda x: x.unique(), np.unique, ZERO)],
    "searchsorted": [plain(fd.searchsorted, np.searchsorted, np.arange(3.0), np.array(1.5))],
    "bucketize": [
        plain(fd.bucketize, lambda x, s: np.searchsorted(s, x), np.array(1.5), np.arange(3.0))
    ],
    "permute": [case(lambda x: x.permute(()), lambda x: x, ())],
    "sum_to_size": [case(lambda x: x.sum_to_size(()), lambda x: x, ())],
    "flip": [case(lambda x: x.flip(()), lambda x: x, ())],
    "movedim": [case(lambda x: x.movedim(0, 0), lambda x: x, ())],
    "swapaxes": [case(lambda x: x.swapaxes(0, -1), lambda x: x, ())],
    "broadcast_tensors": [
        case(lambda x, y: fd.broadcast_tensors(x, y)[0] * y, lambda x, y: x * y, (), ())
    ],
    "view_as": [case(lambda x, y: x.view_as(y), lambda x, y: x.reshape(1), (), (1,))],
    "reshape_as": [case(lambda x, y: x.reshape_as(y), lambda x, y: x.reshape(()), (1,), ())],
    "take_along_dim": [case(lambda x, i: fd.take_along_dim(x, i, 0), lambda x, i: x, (), ZERO)],
    "scatter": [case(lambda x, i, s: x.scatter(0, i, s), lambda x, i, s: s, (), ZERO, ())],
    "scatter_add": [
        case(lambda x, i, s: x.scatter_add(0, i, s), lambda x, i, s: x + s, (), ZERO, ())
    ],
    "index_select": [case(lambda x, i: x.index_select(0, i), lambda x, i: x, (), ZERO)],
    "index_add": [case(lambda x, i, s: x.index_add(0, i, s), lambda x, i, s: x + s, (), ZERO, ())],
    "index_fill": [case(lambda x, i: x.index_fill(0, i, 5.0), lambda x, i: 0 * x + 5, (), ZERO)],
    "index_copy": [case(lambda x, i, s: x.index_copy(0, i, s), lambda x, i, s: s, (), ZERO, ())],
    "take": [case(lambda x, i: x.take(i), lambda x, i: x[1], (3,), np.array(1))],
    "take_places": [
        case(lambda x, m: x[m], lambda x, m: x[m], (), TRUE),
        case(lambda x, i: x[i], lambda x, i: x[i], (3, 2), np.array(1)),
    ],
    "index_put": [
        case(lambda x, i, v: x.index_put((i,), v), lambda x, i, v: v[None] + 0 * x, (1,), ZERO, ())
    ],
    "index_put_": [
        case(
            lambda x, i, v: x.clone().index_put_((i,), v, True),
            lambda x, i, v: x + np.array([0, 1, 0]) * v,
            (3,),
            np.array(1),
            (),
        )
    ],
    "masked_select": [case(lambda x, m: x.masked_select(m), lambda x, m: x[m], (), TRUE)],
    "nonzero": [plain(lambda x: x.nonzero(), np.argwhere, TRUE)],
    "argwhere": [plain(lambda x: x.argwhere(), np.argwhere, TRUE)],
    "one_hot": [plain(lambda i: F.one_hot(i, 3), lambda i: np.eye(3)[i], ZERO)],
    "embedding": [case(lambda w, i: F.embedding(i, w), lambda w, i: w[i], (3, 2), ZERO)],
    "einsum": [case(lambda x, y: fd.einsum(",->", x, y), lambda x, y: x * y, (), ())],
    "tensordot": [case(lambda x, y: fd.tensordot(x, y, 0), lambda x, y: x * y, (), ())],
    "cross_entropy": [
        case(
            lambda x: F.cross_entropy(x, fd.tensor(1, device=x.device)),
            lambda x: -np.log(np.exp(x) / np.exp(x).sum())[1],
            (3,),
        )
    ],
    "nll_loss": [
        case(lambda x: F.nll_loss(x, fd.tensor(1, device=x.device)), lambda x: -x[1], (3,))
    ],
    "round": [case(lambda x: x.round(decimals=1) * x, lambda x: np.round(x, 1) * x, ())],
    "nan_to_num": [plain(lambda x: x.nan_to_num(1.0), np.ones_like, NAN)],
    "lcm": [plain(fd.lcm, np.lcm, np.array(4), np.array(6))],
    "isclose": [plain(fd.isclose, np.isclose, np.array(1.0), np.array(1 + 1e-9))],
    "type_as": [plain(lambda x, y: x.type_as(y), lambda x, y: x.astype(bool), ZERO, TRUE)],
    "std_mean": [
        case(lambda x: fd.std_mean(x, correction=0)[1], lambda x: x, ()),
    ],
    "nansum": [plain(lambda x: x.nansum(), np.nansum, NAN)],
    "nanmean": [case(lambda x: x.nanmean(), lambda x: x, ())],
    "unflatten": [case(lambda x: x.unflatten(0, (1, 1)), lambda x: x.reshape(1, 1), (1,))],
}
Refused = Callable[[fd.Tensor], Any]
# Calls on a tensor without axes that fail, as in PyTorch.
REFUSED_SCALAR: dict[str, Refused] = {
    **fourier_edges.REFUSED_SCALAR,
    **function_edges.REFUSED_SCALAR,
    **image_edges.REFUSED_SCALAR,
    **linalg_edges.REFUSED_SCALAR,
    "grouped_mm": lambda x: F.grouped_mm(x, x),
    "bincount": lambda x: x.long().bincount(),
    "diagonal": lambda x: x.diagonal(),
    "diag": lambda x: x.diag(),
    "trace": lambda x: x.trace(),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: x.flipud(),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(),
    "cat": lambda x: fd.cat([x, x]),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 1),
    "select": lambda x: x.select(0, 0),
    "split": lambda x: x.split(1),
    "split_views": lambda x: x.split(1),
    "split_with_sizes": lambda x: x.split_with_sizes([1]),
    "chunk": lambda x: x.chunk(1),
    "unbind": lambda x: x.unbind(),
    "matmul": lambda x: x @ x,
    "mm": lambda x: x.mm(x),
    "bmm": lambda x: fd.bmm(x, x),
    "mv": lambda x: x.mv(x),
    "dot": lambda x: x.dot(x),
    "vdot": lambda x: x.vdot(x),
    "outer": lambda x: fd.outer(x, x),
    "addmm": lambda x: fd.addmm(x, x, x),
    "addmv": lambda x: fd.addmv(x, x, x),
    "addr": lambda x: fd.addr(x, x, x),
    "baddbmm": lambda x: fd.baddbmm(x, x, x),
    "linear": lambda x: F.linear(x, x),
    "layer_norm": lambda x: F.layer_norm(x, ()),
    "rms_norm": lambda x: F.rms_norm(x, ()),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": F.instance_norm,
    "group_norm": lambda x: F.group_norm(x, 1),
    "local_response_norm": lambda x: F.local_response_norm(x, 1),
    "diff": lambda x: x.diff(),
    "pad": lambda x: F.pad(x, (1, 1)),
}
# Samples (op, index) whose arguments contain an axis.
NAMES_AN_AXIS = {
    ("logsumexp", 1), ("logsumexp", 3), ("softmax", 3), ("argsort", 0), ("argsort", 1),
    ("expand", 0), ("sum_to_size", 0), ("swapaxes", 0), ("broadcast_tensors", 0), ("cat", 2),
    ("cumsum", 1), ("cumprod", 1), ("split_views", 0), ("dot", 0), ("outer", 0), ("addr", 0),
    ("einsum", 3), ("einsum", 5), ("kl_div", 0), ("vdot", 0),
} | function_edges.NAMES_AN_AXIS | linalg_edges.NAMES_AN_AXIS  # fmt: skip

# Ids of samples that NumPy cannot check at infinity: their reference is a constant, or a formula
# without a value there.
NUMPY_KNOWS_NO_SUCH = {
    "softmax-2", "log_softmax-2", "binary_cross_entropy_with_logits-0",
    "binary_cross_entropy-0",  # raises for inputs outside of [0, 1]
    *image_edges.NUMPY_KNOWS_NO_SUCH, *linalg_edges.FINITE_ALONE, *fourier_edges.FINITE_ALONE,
}  # fmt: skip
