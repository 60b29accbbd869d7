"""Descriptions of kernels along rows in the scalar language: reductions, maps, row scalars.

A `Row` has operands and steps, which are executed in order. Adjacent steps that do not need each
other's scalars share one loop over the row; later loops find the row in the cache. So softmax has
three loops. The first one reduces the row to its maximum. The second one maps the row to exp(x -
maximum), and reduces these powers to their total. The third one divides the powers by the total.
Scalars of a row are computed in float64; mapped elements are computed in the row's dtype.

Steps handle NaN and inf, and the order of additions depends on the length of the row alone. This
module does not depend on Numba or on the CPU.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# How an operand is stored. "rows": like x; "columns": one row for all rows; "numbers": one number
# per row ("wide": in float64); "places": one index per row; "bands": one row for each band of rows;
# "totals": one number per column; "outside": one integer, which gets an index that is out of bounds
# (see Note [Indices that change] in bounds.py). The other kinds are only in exact kernels. "table":
# integers, see exact_row_code.py; "sum": one number for all rows; "turns": row i uses the operand's
# row i % b; "turn_sums": an output whose rows are the sums over the rows i with the same i % b;
# "turn_numbers": row i uses number i % b; "group_numbers": row i uses number i // a.
Kind = Literal[
    "rows", "columns", "numbers", "wide", "places", "bands", "totals", "outside", "table", "sum",
    "turns", "turn_sums", "turn_numbers", "group_numbers",
]  # fmt: skip


class Reduce(NamedTuple):
    """Reduce the values of the expression `text` over the row to a scalar. "sum" is the sum of the
    values. "top" is the largest value, ignoring NaN (-inf for an empty row). "nan" is 1 if a value
    is NaN, else 0.
    """

    name: str
    how: Literal["sum", "top", "nan"]
    text: str


class Map(NamedTuple):
    """Write the values of the expression `text` to an operand of kind "rows"."""

    to: str
    text: str


class Add(NamedTuple):
    """Add the values of the expression `text` to an operand. An operand of kind "bands" gets the
    sum of the rows of each band. An operand of kind "turn_sums" gets the sum of the rows with the
    same index modulo b. The first row of each sum overwrites old values.
    """

    to: str
    text: str


class Let(NamedTuple):
    """Compute a scalar of the row from other scalars; rounded=True rounds it to the row's dtype."""

    name: str
    text: str
    rounded: bool = False


class Give(NamedTuple):
    """Write a scalar of the row to an operand of kind "numbers" or "wide"."""

    to: str
    text: str


class Pick(NamedTuple):
    """Read the element of the row at an index; the first element if the index is out of bounds."""

    name: str
    row: str
    place: str


class First(NamedTuple):
    """Compute the rounded mean of the row's first elements, of as many as fit a vector."""

    name: str
    row: str


class Log(NamedTuple):
    """Compute the logarithm of a scalar of the row by NumPy's inner loop; only in exact kernels."""

    name: str
    of: str


class Scan(NamedTuple):
    """Write the cumulative sums of an operand to another one, from the first element on, or from
    the last one if `backwards`. Sums are added in float64, and each is rounded once. Only in exact
    kernels.
    """

    to: str
    of: str
    backwards: bool = False


class Total(NamedTuple):
    """Add a scalar of the row to the sum over earlier rows, in float64, and write the sum times `a`
    to an operand of kind "sum". Only in exact kernels, which one thread runs.
    """

    to: str
    of: str


class If(NamedTuple):
    """Execute steps for the rows for which the expression `text` is true; the steps may recompute
    scalars. Sums in these steps are computed in float64, in a slower loop, because few rows are
    expected to need the steps.

    apart   whether the scalars before this step are computed in a separate loop over several rows:
            with this branch in the loop, LLVM would not vectorize it
    """

    text: str
    steps: tuple[Step, ...]
    apart: bool = False


class Put(NamedTuple):
    """Write a scalar of the row to the element at an index; as with Pick, to the first element if
    the index is out of bounds.
    """

    to: str
    place: str
    text: str


Step = Reduce | Map | Add | Let | Log | Give | Pick | First | If | Put | Total | Scan


class Row(NamedTuple):
    """A kernel: its operands and its steps, in order. Expressions may also use `n`, the row's
    length, and `a` and `b`, two numbers that a call passes. In a kernel with bands, `a` is the
    number of rows, `b` is the number of rows per band, and a call counts bands instead of rows.
    """

    operands: tuple[tuple[str, Kind], ...]
    steps: tuple[Step, ...]
    # The number of rows that are read at a time, far apart from each other.
    streams: int = 1
    # Whether NumPy gives the same bits, see exact_row_code.py.
    is_exact: bool = False

    @property
    def has_bands(self) -> bool:
        """Whether rows are summed in bands."""
        return any(kind == "bands" for _, kind in self.operands)

    @property
    def adds_turns(self) -> bool:
        """Whether rows with the same index modulo b are summed, by a single thread."""
        return any(kind == "turn_sums" for _, kind in self.operands)

    @property
    def has_turns(self) -> bool:
        """Whether operands depend on the row's index modulo b."""
        return any(kind in ("turns", "turn_sums", "turn_numbers") for _, kind in self.operands)

    @property
    def has_groups(self) -> bool:
        """Whether each `a` consecutive rows form a group."""
        return any(kind == "group_numbers" for _, kind in self.operands)


class Columns(NamedTuple):
    """A kernel that sums expressions (`texts`) over all rows, times `a`. Each sum is written to the
    operand with the name of its expression.
    """

    operands: tuple[tuple[str, Kind], ...]
    texts: tuple[tuple[str, str], ...]
    # Whether an iteration takes two vectors of half a cache line instead of one of a whole line.
    in_halves: bool = False


class Short(NamedTuple):
    """A kernel that reduces each of many short rows to a number: the sum times `a`, or the largest
    or smallest element, or NaN if an element is NaN.
    """

    operands: tuple[tuple[str, Kind], ...]
    how: Literal["sum", "top", "bottom"]
    # The number of vectors of a row per iteration; for float32, each is half a cache line.
    vectors: int = 2


def row(operands: str, *steps: Step) -> Row:
    """Return the Row for operands such as "x out weight:columns"; the default kind is "rows"."""
    return Row(_operands(operands), steps)


def columns(operands: str, **texts: str) -> Columns:
    """Return the Columns for operands such as "g mean:numbers"; for each expression in `texts`, an
    operand with its name is added for the totals.
    """
    totals = " ".join(f"{name}:totals" for name in texts)
    return Columns(_operands(f"{operands} {totals}"), tuple(texts.items()))


def _operands(words: str) -> tuple[tuple[str, Kind], ...]:
    pairs = [word.partition(":")[::2] for word in words.split()]
    return tuple([(name, kind or "rows") for name, kind in pairs])  # type: ignore[misc]


TOP = Reduce("top", "top", "x")
_MEAN = (Reduce("total", "sum", "x"), Let("centre", "total / n"))
# The sum of squared deviations from `centre`, a number near the mean, and the correction for the
# distance between `centre` and the mean.
_ABOUT = (
    Reduce("rest", "sum", "x - centre"),
    Reduce("squares", "sum", "square(x - centre)"),
    Let("off", "rest / n"),
    Let("spread", "squares - rest * off"),
)
# `centre` is the mean of the row's first elements. One pass is accurate enough, except in two
# cases: if `centre` is one standard deviation or more from the row's mean, squares lose digits; and
# float32 squares may overflow. In both cases a second pass in float64 follows, with the same
# `centre`. The second pass is accurate enough: the mean of 16 of n numbers is at most sqrt(n / 16)
# standard deviations from the mean of all.
_SPREAD = (
    First("centre", "x"),
    *_ABOUT,
    If("logical_or(rest * off > spread, logical_or(isinf(spread), isnan(spread)))", _ABOUT),
)
# Note [Rows with one large share]
# If one number of a row is far above the others, its share rounds to 1, and the logarithm of the
# total rounds to 0. Both lose digits long before that. So if the share of the largest number is
# over 15/16, the row is summed again without this number. In the training of a model, few rows have
# such a share.
IS_ONE = "logical_and(total >= T(1), total < T(1.0625))"
_LOG = (
    Let("log_total", "log(total)"),
    If(
        IS_ONE,
        (
            Reduce("total", "sum", "where(x < top, exp(x - top), T(0))"),
            # log(1 + total)
            Let(
                "log_total",
                "u = T(1) + total; where(u == T(1), total, log(u) * total / (u - T(1)))",
            ),
        ),
        apart=True,
    ),
)
# The shift is 0 if top is infinite, because inf - inf would be NaN.
_LOG_TOTAL = (
    TOP,
    Let("shift", "where(isinf(top), T(0), top)"),
    Reduce("total", "sum", "exp(x - shift)"),
    *_LOG,
)
_LOSS = (
    *_LOG,
    Pick("chosen", "x", "target"),
    Give("loss", "log_total - (chosen - top)"),
)
_IS_BEST = "logical_or(x == best, logical_and(isnan(x), isnan(best)))"
_SHARES = (Map("out", "exp(x - top)"), Reduce("total", "sum", "out"))

# Parts of layer norm's gradients.
_OF_NORMAL = "g x mean:numbers deviation:numbers"
_BANDS = "by_weight:bands by_bias:bands"
_NORMAL_SCALE = Let("scale", "T(1) / deviation")
_NORMAL = "((x - mean) * scale)"
_DOWN = (Add("by_weight", f"g * {_NORMAL}"), Add("by_bias", "g"))


def _slope(*others: Step) -> tuple[Step, ...]:
    """Return the steps that compute the gradient by x; the steps `others` are inserted into the
    first loop over the row.
    """
    return (
        _NORMAL_SCALE,
        Reduce("total", "sum", "g * weight"),
        Reduce("product", "sum", f"g * weight * {_NORMAL}"),
        *others,
        Let("even", "total / n"),
        Let("along", "product / n"),
        Map("out", f"(g * weight - even - {_NORMAL} * along) * scale"),
    )


_ONE_NUMBER: tuple[tuple[str, Kind], ...] = (("x", "rows"), ("out", "numbers"))

# The steps of the gradients of softmax and log_softmax that keep the digits for rows with one large
# share. Kernels for large arrays and for small arrays use them. See Note [Slopes of rows with one
# large share] in fastdist/ops/nn/softmax.py.
SOFTMAX_GRADIENT_WIDE = (
    Reduce("even", "sum", "g * y"),
    Reduce("rest", "sum", "(g - even) * y"),
    Map("out", "((g - even) - rest) * y"),
)
LARGEST_SHARE = (
    Reduce("most", "top", "y"),
    Reduce("even", "sum", "g"),
    Let("held", "T(0)"),
    Let("others", "T(0)"),
    Let("large", "T(inf)"),
    Let("slope", "T(0)"),
)
HAS_LARGE_SHARE = "most > T(-0.0645)"
HELD_BY_IT = (
    Reduce("held", "sum", "where(y == most, g, T(0))"),
    Reduce("others", "sum", "where(y == most, T(0), g)"),
    Let("large", "most"),
)
WITH_LARGE_SHARE = Map("out", "where(y == large, slope, g - exp(y) * even)")

KERNELS: dict[str, Row | Columns | Short] = {
    "sum_of_short_rows": Short(_ONE_NUMBER, "sum"),
    "top_of_short_rows": Short(_ONE_NUMBER, "top"),
    "bottom_of_short_rows": Short(_ONE_NUMBER, "bottom"),
    "sum_of_shortest_rows": Short(_ONE_NUMBER, "sum", 1),
    "top_of_shortest_rows": Short(_ONE_NUMBER, "top", 1),
    "bottom_of_shortest_rows": Short(_ONE_NUMBER, "bottom", 1),
    "sum_of_columns": columns("x", total="x"),
    "sum_of_near_columns": columns("x", total="x")._replace(in_halves=True),
    "scaled_columns": columns("g x scale:numbers", total="g * x * scale"),
    "normal_columns": columns(
        "g x mean:numbers scale:numbers", by_weight="g * ((x - mean) * scale)", by_bias="g"
    ),
    "both_columns": columns("x y", of_x="x", of_y="y"),
    "sum": row("x total:wide", Reduce("all", "sum", "x"), Give("total", "all")),
    "squares": row("x total:wide", Reduce("all", "sum", "square(x)"), Give("total", "all")),
    "sum_of_rows": row("x out:numbers", Reduce("all", "sum", "x"), Give("out", "all * a")),
    "norm_of_rows": row(
        "x out:numbers", Reduce("all", "sum", "square(x)"), Give("out", "sqrt(all)")
    ),
    "repeat": row("g:numbers out", Map("out", "g")),
    "repeat_row": row("g:columns out", Map("out", "g")),
    "top": row(
        "x out:numbers",
        TOP,
        Reduce("bad", "nan", "x"),
        Give("out", "where(bad > T(0), T(nan), top)"),
    ),
    "bottom": row(
        "x out:numbers",
        Reduce("top", "top", "-x"),
        Reduce("bad", "nan", "x"),
        Give("out", "where(bad > T(0), T(nan), -top)"),
    ),
    "extreme_gradient": row(
        "g:numbers best:numbers x out",
        Reduce("ties", "sum", "where(x == best, T(1), T(0))"),
        Let("share", "g / ties"),
        Let("none", "T(0) / ties"),
        Map("out", "where(x == best, share, none)"),
    ),
    "max_gradient": row(
        "g:numbers best:numbers x out",
        Reduce("ties", "sum", f"where({_IS_BEST}, T(1), T(0))"),
        Let("share", "g / ties"),
        Map("out", f"where({_IS_BEST}, share, T(0))"),
    ),
    # The sum of the deviations from the number a, and the sum of their squares.
    "deviations": row(
        "x rest:wide squares:wide",
        Reduce("lost", "sum", "x - a"),
        Reduce("all", "sum", "square(x - a)"),
        Give("rest", "lost"),
        Give("squares", "all"),
    ),
    "var_of_rows": row("x out:numbers", *_SPREAD, Give("out", "spread * a")),
    "std_of_rows": row("x out:numbers", *_SPREAD, Give("out", "sqrt(spread * a)")),
    "var_gradient": row(
        "g:numbers x out", *_MEAN, Let("even", "g * a"), Map("out", "(x - centre) * even")
    ),
    "norm_gradient": row(
        "g:numbers norm:numbers x out",
        Let("size", "where(norm == T(0), T(inf), norm)"),
        Map("out", "x / size * g"),
    ),
    "logsumexp": row("x out:numbers", *_LOG_TOTAL, Give("out", "shift + log_total")),
    "logsumexp_gradient": row("g:numbers total:numbers x out", Map("out", "g * exp(x - total)")),
    "softmax": row(
        "x out", TOP, *_SHARES, Let("share", "T(1) / total"), Map("out", "out * share")
    ),
    "softmax_gradient": row(
        "g y out", Reduce("even", "sum", "g * y"), Map("out", "(g - even) * y")
    ),
    "log_softmax": row(
        "x out",
        TOP,
        Reduce("total", "sum", "exp(x - top)"),
        *_LOG,
        Map("out", "(x - top) - log_total"),
    ),
    "log_softmax_gradient": row(
        "g y out", Reduce("even", "sum", "g"), Map("out", "g - exp(y) * even")
    ),
    # See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
    "softmax_gradient_wide": row(
        "g y out",
        *SOFTMAX_GRADIENT_WIDE,
    ),
    "log_softmax_gradient_wide": row(
        "g y out",
        *LARGEST_SHARE,
        If(
            HAS_LARGE_SHARE,
            (
                *HELD_BY_IT,
                # -expm1(most) * held - exp(most) * others
                Let(
                    "slope",
                    "p = exp(most); left = where(p == T(1), most, (p - T(1)) * most / log(p)); "
                    "-(left * held) - p * others",
                ),
            ),
        ),
        WITH_LARGE_SHARE,
    ),
    "layer_norm": row(
        "x weight:columns bias:columns out mean:numbers deviation:numbers",
        *_SPREAD,
        Let("size", "sqrt(spread / n + a)"),
        Let("scale", "T(1) / size"),
        Let("middle", "centre + off", rounded=True),
        Let("begin", "(centre - middle + off) * scale"),
        Map("out", "((x - middle) * scale - begin) * weight + bias"),
        Give("mean", "centre + off"),
        Give("deviation", "size"),
    ),
    "layer_norm_gradient": row(f"{_OF_NORMAL} weight:columns out", *_slope()),
    "layer_norm_gradients": row(f"{_OF_NORMAL} weight:columns out {_BANDS}", *_slope(*_DOWN)),
    "normal_bands": row(f"{_OF_NORMAL} {_BANDS}", _NORMAL_SCALE, *_DOWN),
    "rms_norm": row(
        "x weight:columns out scale:numbers",
        Reduce("squares", "sum", "square(x)"),
        Let("by", "T(1) / sqrt(squares / n + a)"),
        Map("out", "x * by * weight"),
        Give("scale", "by"),
    ),
    "rms_norm_gradient": row(
        "g x weight:columns scale:numbers out",
        Reduce("product", "sum", "g * weight * x"),
        Let("along", "product / n * square(scale)"),
        Map("out", "(g * weight - x * along) * scale"),
    ),
    # For attention:
    "weights": row(
        "scores share:numbers log_sum:numbers",
        Reduce("top", "top", "scores"),
        Map("scores", "exp(scores - top)"),
        Reduce("total", "sum", "scores"),
        Give("share", "T(1) / total"),
        Give("log_sum", "top + log(total)"),
    ),
    "slopes": row(
        "scores towards log_sum:numbers",
        Map("scores", "exp(scores - log_sum)"),
        Reduce("even", "sum", "scores * towards"),
        Map("towards", "scores * (towards - even)"),
    ),
    "scaled": row("x share:numbers", Map("x", "x * share")),
    "cross_entropy": row(
        "x target:places loss:numbers weights totals:numbers wrong:outside",
        TOP,
        Map("weights", "exp(x - top)"),
        Reduce("total", "sum", "weights"),
        Give("totals", "total"),
        *_LOSS,
    ),
    "cross_entropy_losses": row(
        "x target:places loss:numbers wrong:outside",
        TOP,
        Reduce("total", "sum", "exp(x - top)"),
        *_LOSS,
    ),
    "cross_entropy_gradient": row(
        "g:numbers target:places weights totals:numbers out wrong:outside",
        Let("given", "g * a"),
        Let("share", "given / totals"),
        Map("out", "weights * share"),
        Pick("own", "weights", "target"),
        Let("slope", "own * share - given"),
        # See Note [Rows with one large share].
        If(
            "own > totals * T(0.9375)",
            (
                Reduce("own", "sum", "where(weights < own, weights, T(0))"),
                Let("slope", "-(own * share)"),
            ),
        ),
        Put("out", "target", "slope"),
    ),
}  # fmt: skip
# For inputs that come from memory, the kernels in APART read several rows at a time. For smaller
# inputs, the kernels in PAIRED read two streams: one row is summed while the partial sums of the
# other row are joined. With two streams, finding the largest number of each row of 1000 takes 3.9
# us for 1e5 numbers and 43.7 us for 1e6; with one stream it takes 4.15 and 46 us (one core of an
# AMD EPYC, Zen 4).
APART = ("sum", "squares", "sum_of_rows", "norm_of_rows", "top", "bottom")
PAIRED = ("sum_of_rows", "norm_of_rows", "top", "bottom", "layer_norm", "layer_norm_gradient")
KERNELS |= {f"{name}_apart": KERNELS[name]._replace(streams=4) for name in APART}  # type: ignore[call-arg]
KERNELS |= {f"{name}_paired": KERNELS[name]._replace(streams=2) for name in PAIRED}  # type: ignore[call-arg]
