"""Sample calls of views, copies, joins, and reading and writing by index."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from tests.ops.cases import F, bools, case, ints, plain

ROWS = ints([[0, 2, 1], [1, 1, 0]])
MASK = bools("1010", "0111", "0000")


def written(x, index, value):
    x = x.copy()
    x[index] = value
    return x


def added(x, index, value):
    x = x.copy()
    np.add.at(x, index, value)
    return x


def assigned(index, value=None):
    """Return f(x, v), which copies x, assigns v or `value` to [index], and returns the copy."""

    def assign(x, *given):
        y = x.clone()
        y[index] = given[0] if given else value
        return y

    return assign


CASES = {
    "view": [
        case(lambda x: x.view(2, 6), lambda x: x.reshape(2, 6), (3, 4)),
        case(lambda x: x.view(-1), lambda x: x.reshape(-1), ()),
        case(lambda x: x.view(0, 5), lambda x: x.reshape(0, 5), (5, 0)),
    ],
    "transpose": [
        case(lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 2), (2, 3, 4)),
        case(lambda x: fd.transpose(x, 0, 0), lambda x: x, ()),
    ],
    "permute": [case(lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1), (2, 3, 4))],
    "expand": [
        case(lambda x: x.expand(2, 3, -1), lambda x: np.broadcast_to(x, (2, 3, 4)), (3, 4)),
        case(lambda x: x.expand(3), lambda x: np.broadcast_to(x, 3), ()),
    ],
    "squeeze": [
        case(lambda x: x.squeeze(), lambda x: x.squeeze(), (1, 3, 1)),
        case(lambda x: fd.squeeze(x, 0), lambda x: x[0], (1, 3, 1)),
    ],
    "unsqueeze": [case(lambda x: x.unsqueeze(-1), lambda x: x[..., None], (2, 3))],
    "diagonal": [
        case(lambda x: x.diagonal(), np.diagonal, (3, 4)),
        case(lambda x: fd.diagonal(x, -1, 1, 2), lambda x: np.diagonal(x, -1, 1, 2), (2, 3, 4)),
        case(lambda x: x.diagonal(5), lambda x: x.diagonal(5), (3, 4)),
    ],
    "diag": [
        case(lambda x: x.diag(1), lambda x: np.diag(x, 1), (3, 4)),
        case(lambda x: fd.diag(x, -1), lambda x: np.diag(x, -1), (3,)),
        case(lambda x: fd.diag(x, -5), lambda x: np.diag(x, -5), (3, 4)),
    ],
    "trace": [case(lambda x: x.trace(), np.trace, (3, 4))],
    "basic_index": [
        case(lambda x: x[1], lambda x: x[1], (3, 4)),
        case(lambda x: x[:, 1:3], lambda x: x[:, 1:3], (3, 4)),
        case(lambda x: x[None, ..., ::2], lambda x: x[None, ..., ::2], (3, 4)),
        case(lambda x: x[-1, 2], lambda x: x[-1, 2], (3, 4)),
        case(lambda x: x[...], lambda x: x, ()),
        case(lambda x: x[2:1], lambda x: x[2:1], (3, 4)),
    ],
    "clone": [case(lambda x: x.clone(), lambda x: x, (3, 4))],
    "cast": [
        case(lambda x: x.to(fd.float64), lambda x: x, (3,)),
        plain(lambda x: x.to(fd.int32), lambda x: x.astype(np.int32), (5,)),
    ],
    "to": [case(lambda x: x.to(fd.float64) * 2, lambda x: x * 2, (3,))],
    "contiguous": [case(lambda x: x.t().contiguous(), lambda x: x.T, (2, 3))],
    "sum_to_size": [case(lambda x: x.sum_to_size(1, 4), lambda x: x.sum(0, keepdims=True), (3, 4))],
    "flip": [
        case(lambda x: x.flip(0, -1), lambda x: x[::-1, ::-1], (3, 4)),
        case(lambda x: fd.flip(x, (1,)), lambda x: x[:, ::-1], (3, 4)),
    ],
    "fliplr": [case(lambda x: x.fliplr(), np.fliplr, (3, 4))],
    "flipud": [case(fd.flipud, np.flipud, (3, 4))],
    "roll": [
        case(lambda x: x.roll(1), lambda x: np.roll(x, 1), (3, 4)),
        case(lambda x: fd.roll(x, (1, -2), (0, 1)), lambda x: np.roll(x, (1, -2), (0, 1)), (3, 4)),
    ],
    "tril": [
        case(lambda x: x.tril(), np.tril, (3, 4)),
        case(lambda x: fd.tril(x, -1), lambda x: np.tril(x, -1), (2, 3, 3)),
    ],
    "triu": [case(lambda x: x.triu(1), lambda x: np.triu(x, 1), (3, 4))],
    "repeat": [
        case(lambda x: x.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3)), (2, 3)),
        case(lambda x: x.repeat(3), lambda x: np.tile(x, 3), ()),
    ],
    "tile": [
        case(lambda x: x.tile(2), lambda x: np.tile(x, 2), (2, 3)),
        case(lambda x: fd.tile(x, (2, 2)), lambda x: np.tile(x, (2, 2)), (3,)),
    ],
    "flatten": [
        case(lambda x: x.flatten(), np.ravel, (2, 3)),
        case(lambda x: fd.flatten(x, 1), lambda x: x.reshape(2, 12), (2, 3, 4)),
        case(lambda x: x.flatten(), np.ravel, ()),
    ],
    "ravel": [case(lambda x: x.t().ravel(), lambda x: x.T.ravel(), (2, 3))],
    "unflatten": [case(lambda x: x.unflatten(1, (2, -1)), lambda x: x.reshape(3, 2, 2), (3, 4))],
    "movedim": [
        case(lambda x: x.movedim(0, -1), lambda x: np.moveaxis(x, 0, -1), (2, 3, 4)),
        case(
            lambda x: fd.movedim(x, (0, 1), (2, 0)),
            lambda x: np.moveaxis(x, (0, 1), (2, 0)),
            (2, 3, 4),
        ),
    ],
    "swapaxes": [case(lambda x: x.swapaxes(0, 1), np.transpose, (2, 3))],
    "expand_as": [case(lambda x, y: x.expand_as(y) * y, lambda x, y: x * y, (3,), (2, 3))],
    "broadcast_to": [
        case(lambda x: x.broadcast_to((2, 3)), lambda x: np.broadcast_to(x, (2, 3)), (3,))
    ],
    "broadcast_tensors": [
        case(
            lambda x, y: fd.broadcast_tensors(x, y)[0],
            lambda x, y: np.broadcast_to(x, (2, 3)),
            (3,),
            (2, 1),
        )
    ],
    "view_as": [
        case(lambda x, y: x.view_as(y) * y, lambda x, y: x.reshape(3, 2) * y, (2, 3), (3, 2))
    ],
    "reshape_as": [
        case(lambda x, y: x.t().reshape_as(y) * y, lambda x, y: x.T.reshape(6) * y, (2, 3), (6,))
    ],
    "cat": [
        case(lambda x, y: fd.cat([x, y]), lambda x, y: np.concatenate([x, y]), (2, 3), (1, 3)),
        case(
            lambda x, y: fd.cat((x, y, x), -1),
            lambda x, y: np.concatenate([x, y, x], -1),
            (2, 3),
            (2, 1),
        ),
        case(lambda x: fd.cat([x, fd.zeros(0, device=x.device)]), lambda x: x, (2, 3)),
    ],
    "stack": [
        case(lambda x, y: fd.stack([x, y], 1), lambda x, y: np.stack([x, y], 1), (2, 3), (2, 3)),
        case(lambda x, y: fd.stack([x, y]), lambda x, y: np.stack([x, y]), (), ()),
    ],
    "hstack": [
        case(lambda x, y: fd.hstack([x, y]), lambda x, y: np.hstack([x, y]), (2, 3), (2, 1))
    ],
    "vstack": [case(lambda x, y: fd.vstack([x, y]), lambda x, y: np.vstack([x, y]), (3,), (2, 3))],
    "narrow": [case(lambda x: x.narrow(1, 1, 2), lambda x: x[:, 1:3], (3, 4))],
    "select": [case(lambda x: x.select(1, -1), lambda x: x[:, -1], (3, 4))],
    "split": [
        case(lambda x: x.split(2)[1], lambda x: x[2:4], (5, 2)),
        case(lambda x: fd.split(x, [1, 3], 1)[1], lambda x: x[:, 1:], (2, 4)),
    ],
    "split_views": [
        case(
            lambda x: fd.cat([one * i for i, one in enumerate(x.split(2), 1)]),
            lambda x: x * np.array([1, 1, 2, 2, 3])[:, None],
            (5, 2),
        ),
        case(
            lambda x: x.unbind()[2] * x.unbind(1)[0].exp()[:2].sum(),
            lambda x: x[2] * np.exp(x[:2, 0]).sum(),
            (3, 4),
        ),
    ],
    "chunk": [case(lambda x: x.chunk(3)[2], lambda x: x[4:], (5, 2))],
    "unbind": [
        case(lambda x: fd.unbind(x, 1)[1] * x.unbind()[0], lambda x: x[:, 1] * x[0], (2, 2))
    ],
    "gather": [
        case(lambda x, i: x.gather(1, i), lambda x, i: np.take_along_axis(x, i, 1), (2, 4), ROWS),
        case(
            lambda x, i: fd.gather(x, 0, i),
            lambda x, i: np.take_along_axis(x[:, :3], i, 0),
            (3, 4),
            ROWS,
        ),
        case(lambda x, i: x.gather(0, i), lambda x, i: x, (), np.zeros((), np.int64)),
    ],
    "take_along_dim": [
        case(
            lambda x, i: fd.take_along_dim(x, i, 1),
            lambda x, i: np.take_along_axis(x, i, 1),
            (2, 4),
            ROWS,
        )
    ],
    "scatter": [
        case(
            lambda x, i, s: x.scatter(1, i, s),
            lambda x, i, s: written(x, (np.arange(2)[:, None], i), s),
            (2, 4),
            ints([[0, 2, 1], [1, 3, 0]]),
            (2, 3),
        ),
        case(
            lambda x, i: fd.scatter(x, 0, i, 7.0),
            lambda x, i: written(x, (i, np.arange(3)), 7),
            (3, 4),
            ROWS,
        ),
    ],
    "scatter_add": [
        case(
            lambda x, i, s: x.scatter_add(1, i, s),
            lambda x, i, s: added(x, (np.arange(2)[:, None], i), s),
            (2, 4),
            ROWS,
            (2, 3),
        ),
        case(
            lambda x, i, s: fd.scatter_add(x, 0, i, s),
            lambda x, i, s: added(x, (i, np.arange(3)), s[:2, :3]),
            (3, 4),
            ROWS,
            (3, 4),
        ),
    ],
    "index_select": [
        case(lambda x, i: x.index_select(1, i), lambda x, i: x[:, i], (2, 4), ints(3, 0, 3)),
        case(lambda x, i: fd.index_select(x, 0, i), lambda x, i: x[i], (3, 2), ints([1])),
    ],
    "index_add": [
        case(lambda x, i, s: x.index_add(0, i, s), added, (3, 2), ints(2, 0, 2), (3, 2)),
        case(
            lambda x, i, s: fd.index_add(x, 1, i, s, alpha=2),
            lambda x, i, s: added(x, (slice(None), i), 2 * s),
            (2, 4),
            ints(1, 1),
            (2, 2),
        ),
    ],
    "index_fill": [
        case(
            lambda x, i: x.index_fill(1, i, 5.0),
            lambda x, i: written(x, (slice(None), i), 5),
            (2, 4),
            ints(1, 3),
        )
    ],
    "index_copy": [
        case(lambda x, i, s: x.index_copy(0, i, s), written, (3, 2), ints(2, 0), (2, 2))
    ],
    "take": [
        case(lambda x, i: x.take(i), lambda x, i: x.ravel()[i], (2, 3), ints([[0, 5], [-1, 2]]))
    ],
    "take_places": [
        case(lambda x, i: x[i], lambda x, i: x[i], (4, 3), ints([[0, 2], [2, 3]])),
        case(lambda x, i: x[:, i], lambda x, i: x[:, i], (2, 4), ints(1, 1, 3)),
        case(lambda x, i: x[i, i], lambda x, i: x[i, i], (4, 4), ints(1, 1, 3)),
        case(lambda x, i: x[i, :, i], lambda x, i: x[i, :, i], (4, 2, 4), ints(1, 3)),
        case(lambda x, i: x[0, :, i], lambda x, i: x[0][:, i], (2, 3, 4), ints(1, 3)),
        case(lambda x, i: x[..., i, None], lambda x, i: x[..., i, None], (2, 4), ints(1, 3)),
        case(lambda x: x[[0, 2]], lambda x: x[[0, 2]], (3, 2)),
        case(lambda x, m: x[m], lambda x, m: x[m], (3, 4), MASK),
        case(lambda x, m: x[:, m], lambda x, m: x[:, m], (2, 4), bools("1011")),
        case(lambda x, m: x[m], lambda x, m: x[m], (3, 4), np.zeros((3, 4), bool)),
        case(lambda x, i: x[1:, i], lambda x, i: x[1:, i], (3, 4), ints([[0, 1], [1, 0]])),
    ],
    "put_places": [
        case(assigned(1), lambda x, v: written(x, 1, v), (3, 4), (4,)),
        case(assigned((slice(None), 2)), lambda x, v: written(x, (slice(None), 2), v), (3, 4), ()),
        case(
            assigned((Ellipsis, None)),
            lambda x, v: written(x, (Ellipsis, None), v),
            (3,),
            (1, 3, 1),
        ),
        case(
            lambda x, i, v: assigned((slice(None), i))(x, v),
            lambda x, i, v: written(x, (slice(None), i), v),
            (3, 4),
            ints(0, 2),
            (3, 2),
        ),
        case(
            lambda x, i, v: assigned((1, i))(x, v),
            lambda x, i, v: written(x, (1, i), v),
            (3, 4),
            ints(0, 2),
            (),
        ),
        case(lambda x, m, v: assigned(m)(x, v), written, (3, 4), MASK, ()),
        case(lambda x, m: assigned(m, 5.0)(x), lambda x, m: written(x, m, 5), (3, 4), MASK),
    ],
    "index_put": [
        case(lambda x, i, v: x.index_put((i,), v), written, (3, 4), ints(0, 2), (4,)),
        case(
            lambda x, i, v: fd.index_put(x, (i, i), v, True),
            lambda x, i, v: added(x, (i, i), v),
            (3, 4),
            ints(1, 1, 2),
            (3,),
        ),
    ],
    "index_put_": [
        case(lambda x, i, v: x.clone().index_put_((i,), v, True), added, (3, 2), ints(1, 1), (2, 2))
    ],
    "masked_select": [
        case(
            lambda x, m: x.masked_select(m),
            lambda x, m: x[np.broadcast_to(m, x.shape)],
            (3, 4),
            bools("1011"),
        )
    ],
    "nonzero": [
        plain(lambda m: m.nonzero(), np.argwhere, MASK),
        plain(lambda m: fd.nonzero(m, as_tuple=True)[1], lambda m: m.nonzero()[1], MASK),
    ],
    "nonzero_static": [
        plain(
            lambda m: m.nonzero_static(size=9, fill_value=-2),
            lambda m: np.concatenate([np.argwhere(m), np.full((9, 2), -2)])[:9],
            MASK,
        )
    ],
    "argwhere": [plain(lambda m: m.argwhere(), np.argwhere, MASK)],
    "where": [
        plain(lambda m: fd.where(m)[1], lambda m: np.where(m)[1], MASK),
        case(
            lambda x, y, m: fd.where(m, x, y), lambda x, y, m: np.where(m, x, y), (3, 4), (4,), MASK
        ),
        case(lambda x, m: x.where(m, 3.0), lambda x, m: np.where(m, x, 3.0), (3, 4), MASK),
    ],
    "masked_fill": [
        case(lambda x, m: x.masked_fill(m, 2.0), lambda x, m: np.where(m, 2.0, x), (3, 4), MASK),
        case(
            lambda x, m, v: x.masked_fill(m, v), lambda x, m, v: np.where(m, v, x), (3, 4), MASK, ()
        ),
    ],
    "one_hot": [
        plain(F.one_hot, lambda i: np.eye(3, dtype=np.int64)[i], ROWS),
        plain(lambda i: F.one_hot(i, 5), lambda i: np.eye(5, dtype=np.int64)[i], ROWS),
    ],
    "embedding": [case(lambda w, i: F.embedding(i, w), lambda w, i: w[i], (4, 3), ROWS)],
}
COVERED_BY = {
    "hits": "nonzero",
    "place": "basic_index",
    "place_diagonal": "diag",
    "scatter_src": "scatter",
    "scatter_zeros": "gather",
    "select_slices": "index_select",
    "add_slices": "index_add",
    "put_zeros": "take_places",
    "packed": "contiguous",
}
