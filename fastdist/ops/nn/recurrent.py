"""Recurrent cells applied to sequences: one op for all steps of a layer in one direction.

The rows of a layer are packed: first the rows of step 1, then the rows of step 2, and so on. No
step has more rows than the previous step. `walk_sequence` calls one op in the common case. For
forward mode, complex numbers and projections, `walk_sequence` calls other ops for each step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ...core.errors import ShapeError
from ...core.running_op import PARTS
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import has_tangents
from ...graph.modes import tls
from ...interpreters.batched_tensor import level_of, levels, value_at
from ...tensor.tensor import Tensor
from ..create.creation import zeros_like
from ..pointwise.masked import where
from ..refusals import require_floating_inputs
from ..shape.joining import cat
from ..shape.splitting import narrow


class Cell(NamedTuple):
    """A kind of cell. `gates` is the number of its gates. `kept` is the number of values that the
    cell saves for its gradient, for each row and hidden element.

    `step(gates, product, h, c)` returns the new h, the new c and the values that `back` needs.
    `back(dh, dc, kept, h, c)` returns the gradients with respect to gates, product, h and c. The
    gradient with respect to h excludes the gradient that passes through product.
    """

    gates: int
    kept: int
    step: Callable[..., Any]
    back: Callable[..., Any]


def _parts(gates: Tensor, count: int) -> list[Any]:
    n = gates._layout.shape[1] // count
    return [narrow(gates, 1, i * n, n) for i in range(count)]


def _step_lstm(gates: Tensor, product: Tensor, h: Tensor, c: Tensor) -> Any:
    i, f, g, o = _parts(gates + product, 4)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    bent = c.tanh()
    return o * bent, c, (i, f, g, o, bent)


def _back_lstm(dh: Tensor, dc: Tensor, kept: tuple[Tensor, ...], h: Tensor, c: Tensor) -> Any:
    i, f, g, o, bent = kept
    d_state = dc + dh * o * (1 - bent * bent)
    by_gates = cat(
        [
            d_state * g * i * (1 - i),
            d_state * c * f * (1 - f),
            d_state * i * (1 - g * g),
            dh * bent * o * (1 - o),
        ],
        1,
    )
    return by_gates, by_gates, None, d_state * f


def _step_gru(gates: Tensor, product: Tensor, h: Tensor, c: Tensor | None) -> Any:
    (x_r, x_z, x_n), (y_r, y_z, y_n) = _parts(gates, 3), _parts(product, 3)
    r, z = (x_r + y_r).sigmoid(), (x_z + y_z).sigmoid()
    new = (x_n + r * y_n).tanh()
    return new + z * (h - new), c, (r, z, new, y_n)


def _back_gru(
    dh: Tensor, dc: Tensor | None, kept: tuple[Tensor, ...], h: Tensor, c: Tensor | None
) -> Any:
    r, z, new, y_n = kept
    by_new = dh * (1 - z) * (1 - new * new)
    both = cat([by_new * y_n * r * (1 - r), dh * (h - new) * z * (1 - z)], 1)
    return cat([both, by_new], 1), cat([both, by_new * r], 1), dh * z, dc


def _step_tanh(gates: Tensor, product: Tensor, h: Tensor, c: Tensor | None) -> Any:
    new = (gates + product).tanh()
    return new, c, new


def _back_tanh(dh: Tensor, dc: Tensor | None, kept: Tensor, h: Tensor, c: Tensor | None) -> Any:
    by_gates = dh * (1 - kept * kept)
    return by_gates, by_gates, None, dc


def _step_relu(gates: Tensor, product: Tensor, h: Tensor, c: Tensor | None) -> Any:
    new = (gates + product).relu()
    return new, c, new


def _back_relu(dh: Tensor, dc: Tensor | None, kept: Tensor, h: Tensor, c: Tensor | None) -> Any:
    by_gates = where(kept > 0, dh, zeros_like(dh))
    return by_gates, by_gates, None, dc


CELLS: Final = {
    "lstm": Cell(4, 6, _step_lstm, _back_lstm),
    "gru": Cell(3, 4, _step_gru, _back_gru),
    "tanh": Cell(1, 1, _step_tanh, _back_tanh),
    "relu": Cell(1, 1, _step_relu, _back_relu),
}


@structured(
    "nn.recurrent.sequence", fresh=True, several=True, homes="nowhere", known_as="mkldnn_rnn_layer"
)
def recurrent_sequence(
    gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the h of each step in packed rows, the last h, the last c (empty except for lstm), and
    two results that only the gradient uses.

    `gates` has the inputs' contribution to the gates. Each step adds h @ weight.T + bias.
    """


def _layers_of(values: Mapping[str, object]) -> str:
    """Return the name, for error messages, of the public op that has this kind of cell."""
    cell = str(values.get("cell", "rnn"))
    return f"rnn_{cell}" if cell in ("tanh", "relu") else cell


PARTS["recurrent_sequence"] = _layers_of


@recurrent_sequence.plan
def _(
    gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> Plan:
    rows, (batch, hidden) = gates._layout.shape[0], hx._layout.shape
    require_floating_inputs("recurrent_sequence", gates)
    _require_fitting(gates, hx, cx, weight, bias, cell)
    _require_steps(batch_sizes, rows, batch)
    dtype = gates._layout.dtype
    wide = dtype.computes_in
    last = ((batch, hidden), dtype), ((0 if cx is None else batch, hidden), dtype)
    kept = ((rows, CELLS[cell].kept * hidden), wide), ((rows, hidden), wide)
    numbers = (cell, batch_sizes, reverse)
    return Plan((rows, hidden), dtype, numbers, compute=wide, extra_outputs=(*last, *kept))


def _require_fitting(
    gates: Tensor, hx: Tensor, cx: Tensor | None, weight: Tensor, bias: Tensor | None, cell: str
) -> None:
    """Raise an error if the shapes of the parameters do not fit the layer. This check is needed
    because a user may have replaced the parameters, and the kernels do not check shapes.
    """
    batch, hidden = hx._layout.shape
    width = CELLS[cell].gates * hidden
    for name, given, wanted in (
        ("the input's part of the gates", gates, (gates._layout.shape[0], width)),
        ("weight_hh", weight, (width, hidden)),
        ("bias_hh", bias, (width,)),
        ("the first c", cx, (batch, hidden)),
    ):
        if given is not None and given._layout.shape != wanted:
            raise ShapeError(
                f"{cell}: {name} has shape {given._layout.shape}, but a hidden size of {hidden} "
                f"takes {wanted}"
            )


def _require_steps(batch_sizes: tuple[int, ...], rows: int, batch: int) -> None:
    """Raise ShapeError unless the numbers of rows per step are positive, never increase, and add up
    to `rows`.
    """
    falls = all(after <= before for before, after in itertools.pairwise((batch, *batch_sizes)))
    # With an empty batch the steps may have 0 rows.
    least = min(batch, 1)
    if not falls or min(batch_sizes, default=1) < least or sum(batch_sizes) != rows:
        raise ShapeError(
            f"batch_sizes must be positive, fall from at most {batch} and add up to the {rows} "
            f"rows of the packed sequence, got {batch_sizes}"
        )


@recurrent_sequence.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    """Run the sequences of all batched calls as one batch. If the calls have separate weights, use
    other ops, which compute each step for all calls together.
    """
    gates, hx, cx, weight, bias = operands
    size = levels.sizes[level - 1]
    cell, batch_sizes, reverse = attributes
    if level_of((weight, bias)) == level:
        found, h, c = _walk_by_ops(gates, hx, cx, weight, bias, None, attributes)
        none = narrow(found, 0, 0, 0)  # for the results that only the kernel's gradient uses
        results = found, h, narrow(h, 0, 0, 0) if c is None else c, none, none
        return tuple([value_at(one, level, size=size) for one in results])
    # Later steps process only the first rows of a batch. For this reason, rows of different calls
    # with the same position must be adjacent.
    given = [o if o is None else _side_by_side(o, level) for o in (gates, hx, cx)]
    counts = tuple([count * size for count in batch_sizes])
    results = op.general((*given, weight, bias), (cell, counts, reverse))
    rows, batch = gates._layout.shape[0], hx._layout.shape[0]
    lengths = rows, batch, 0 if cx is None else batch, rows, rows
    pairs = zip(results, lengths, strict=True)
    return tuple([one.reshape(n, size, *one._layout.shape[1:]).movedim(1, 0) for one, n in pairs])


def _side_by_side(x: Tensor, level: int) -> Any:
    value = value_at(x, level, size=levels.sizes[level - 1]).movedim(0, 1)
    return value.reshape(value._layout.shape[0] * value._layout.shape[1], *value._layout.shape[2:])


@recurrent_sequence.vjp("gates", "hx", "cx", "weight", "bias")
def _(
    grads: tuple[Any, ...],
    gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
    outs: tuple[Any, ...],
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:
    steps = cell, batch_sizes, reverse
    of_results, saved, before = grads[:3], *outs[3:]
    if tls.grad or has_tangents((*of_results, gates, hx, cx, weight, bias)):
        return _gradient_of_ops(of_results, gates, hx, cx, weight, bias, steps)
    has_c = cx is not None
    found = recurrent_sequence_gradient.public(
        hx, saved, before, weight, *of_results, has_c, *steps
    )
    by_gates, over, by_hx, by_cx = found
    by_product = over if over._layout.shape[0] else by_gates
    by_product = by_product.to(by_product._layout.dtype.computes_in)
    by_weight = by_product.t() @ before if wanted[3] else None
    by_bias = by_product.sum(0) if wanted[4] else None
    return by_gates, by_hx, by_cx if cx is not None else None, by_weight, by_bias


@structured(
    "nn.recurrent.sequence_gradient",
    fresh=True,
    homes="nowhere",
    known_as="mkldnn_rnn_layer_backward",
    differentiable=False,
)
def recurrent_sequence_gradient(
    hx: Tensor,
    saved: Tensor,
    before: Tensor,
    weight: Tensor,
    g: Tensor | None,
    last_h: Tensor | None,
    last_c: Tensor | None,
    has_c: bool,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of recurrent_sequence with respect to gates, h @ weight.T + bias, hx and
    cx. The second gradient is empty if it equals the first. g, last_h and last_c are the gradients
    of the results, or None. This op is not differentiable.
    """


@recurrent_sequence_gradient.plan
def _(
    hx: Tensor,
    saved: Tensor,
    before: Tensor,
    weight: Tensor,
    g: Tensor,
    last_h: Any,
    last_c: Any,
    has_c: bool,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> Plan:
    rows, (batch, hidden), dtype = before._layout.shape[0], hx._layout.shape, hx._layout.dtype
    width = weight._layout.shape[0]
    wide = saved._layout.dtype
    more = (
        ((rows if cell == "gru" else 0, width), wide),
        ((batch, hidden), dtype),
        ((batch if has_c else 0, hidden), dtype),
    )
    numbers = (cell, batch_sizes, reverse)
    return Plan((rows, width), dtype, numbers, compute=wide, extra_outputs=more)


def walk_sequence(
    gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> tuple[Any, Any, Any]:
    """Return the h of each step in packed rows, the last h and the last c (None except for lstm).

    `gates` has the inputs' contribution to the gates. `projection`, of shape (h, hidden), reduces
    the output of a cell to h.
    """
    given = (gates, hx, cx, weight, bias)
    if projection is not None or gates._layout.dtype.is_complex or has_tangents(given):
        return _walk_by_ops(*given, projection, (cell, batch_sizes, reverse))
    found, last_h, last_c, *_ = recurrent_sequence(*given, cell, batch_sizes, reverse)
    return found, last_h, None if cx is None else last_c


Steps = tuple[str, tuple[int, ...], bool]


def _steps_of(batch_sizes: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, int, int]]:
    """Yield index, first row and number of rows of each step, in the order of processing."""
    starts = [0]
    for count in batch_sizes:
        starts.append(starts[-1] + count)
    for k in range(len(batch_sizes))[:: -1 if reverse else 1]:
        yield k, starts[k], batch_sizes[k]


def _first(x: Any, count: int) -> Any:
    return x if x is None or x._layout.shape[0] == count else narrow(x, 0, 0, count)


def _renewed(x: Any, new: Any, count: int) -> Any:
    """Return x with its first `count` rows replaced by `new`."""
    batch = x._layout.shape[0] if x is not None else count
    return new if batch == count else cat([new, narrow(x, 0, count, batch - count)], 0)


def _product(h: Tensor | None, weight: Any, bias: Tensor | None) -> Any:
    product = h @ weight.t()
    return product if bias is None else product + bias


def _walk_by_ops(
    gates: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    steps: Steps,
) -> tuple[Any, Any, Any]:
    cell, batch_sizes, reverse = steps
    found: list[Any] = [None] * len(batch_sizes)
    for k, start, count in _steps_of(batch_sizes, reverse):
        mine = _first(h, count)
        product = _product(mine, weight, bias)
        part = narrow(gates, 0, start, count)
        new, new_c, _ = CELLS[cell].step(part, product, mine, _first(c, count))
        if projection is not None:
            new = new @ projection.t()
        found[k] = new
        h, c = _renewed(h, new, count), None if c is None else _renewed(c, new_c, count)
    return cat(found, 0), h, c


def _gradient_of_ops(
    grads: tuple[Any, ...],
    gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    steps: Steps,
) -> tuple[Any, ...]:
    """Return the gradients of recurrent_sequence, composed of other ops, which autograd records."""
    cell, batch_sizes, reverse = steps
    made, walked, h, c = CELLS[cell], [], hx, cx
    for _, start, count in _steps_of(batch_sizes, reverse):
        mine, mine_c = _first(h, count), _first(c, count)
        part = narrow(gates, 0, start, count)
        new, new_c, kept = made.step(part, _product(mine, weight, bias), mine, mine_c)
        walked.append((mine, mine_c, kept))
        h, c = _renewed(h, new, count), None if c is None else _renewed(c, new_c, count)
    g, dh, dc = grads
    dh = zeros_like(hx) if dh is None else dh
    dc = None if cx is None else zeros_like(cx) if dc is None else dc
    by_gates: list[Any] = [None] * len(batch_sizes)
    by_product, before = list(by_gates), list(by_gates)
    for k, start, count in _steps_of(batch_sizes, not reverse):
        mine, mine_c, kept = walked.pop()
        d = _first(dh, count)
        if g is not None:
            d = d + narrow(g, 0, start, count)
        found = made.back(d, _first(dc, count), kept, mine, mine_c)
        by_gates[k], by_product[k], direct, new_dc = found
        before[k] = mine
        through = by_product[k] @ weight
        dh = _renewed(dh, through if direct is None else through + direct, count)
        dc = None if dc is None else _renewed(dc, new_dc, count)
    over = cat(by_product, 0)
    by_weight = over.t() @ cat(before, 0)
    return cat(by_gates, 0), dh, dc, by_weight, None if bias is None else over.sum(0)
