"""Descriptions of kernels along rows in the scalar language: reductions, maps, row numbers.

A `Row` names its operands and its steps. Steps are taken in order; adjacent steps that need no
number of each other share one loop over the row, in which a row that was just mapped is in the
cache. So softmax is: reduce to the top; map to exp(x - top) and reduce that to its total; map to
the share of the total. A number of a row is computed in float64, mapped elements in the row's
dtype.

No step assumes NaN or inf away, and the order of additions follows from the length of the row
alone. Nothing here knows of Numba or of the CPU.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# How an operand is stored: as x is, as one row for all, one number a row (also in float64), or one
# place in each row; as one row for a band of rows; one number a column; or one integer for all,
# which becomes a place that a row does not have (see Note [Indices that change] in bounds.py). The
# table of an exact kernel holds integers that it needs, see exact_row_code.py. With `b` rows that
# take turns ("turns"), row i sees the one at i % b; the output of such rows ("turn_sums") is the
# sum over the rows that see the same one. Row i sees the number at i % b of "turn_numbers", and
# that at i // a of "group_numbers". Only exact kernels have these four.
Kind = Literal[
    "rows", "columns", "numbers", "wide", "places", "bands", "totals", "outside", "table", "sum",
    "turns", "turn_sums", "turn_numbers", "group_numbers",
]  # fmt: skip


class Reduce(NamedTuple):
    """A number of the row: the sum of text's values; the greatest, NaN aside (-inf of nothing); or
    1 if any is NaN, else 0.
    """

    name: str
    how: Literal["sum", "top", "nan"]
    text: str


class Map(NamedTuple):
    """text's values go to an operand of kind "rows"."""

    to: str
    text: str


class Add(NamedTuple):
    """text's values are added to those of the other rows of the band, in an operand of kind
    "bands", or of the same turn, in one of kind "turn_sums"; those of the first row of the band, or
    of the turn, take the place of what was there.
    """

    to: str
    text: str


class Let(NamedTuple):
    """A number of the row, of others; rounded as what is mapped is, or not."""

    name: str
    text: str
    rounded: bool = False


class Give(NamedTuple):
    """A number of the row goes to an operand of kind "numbers" or "wide"."""

    to: str
    text: str


class Pick(NamedTuple):
    """The number at a place of the row; the first one if the row does not have that place."""

    name: str
    row: str
    place: str


class First(NamedTuple):
    """The mean of the numbers that the row begins with, as many as a vector has, rounded."""

    name: str
    row: str


class Log(NamedTuple):
    """The logarithm of a number of the row, by the loop of NumPy's; of exact kernels alone."""

    name: str
    of: str


class Scan(NamedTuple):
    """The running sums of an operand go to another one: added in float64, each rounded once, from
    the first number on or from the last. Only in exact kernels.
    """

    to: str
    of: str
    backwards: bool = False


class Total(NamedTuple):
    """A number of the row is added to those of the rows before, in float64; the sum times `a` goes
    to an operand of kind "sum". Only in exact kernels, which one thread runs.
    """

    to: str
    of: str


class If(NamedTuple):
    """Steps of the rows for which text holds; they may recompute numbers. Their sums are made in
    float64, in a slower loop, since few rows are expected to need it.

    apart   whether the numbers before it are computed for several rows at once; a branch in their
            loop keeps LLVM from that
    """

    text: str
    steps: tuple[Step, ...]
    apart: bool = False


class Put(NamedTuple):
    """A number of the row replaces the element at a place; as with Pick, the first one where the
    row does not have that place.
    """

    to: str
    place: str
    text: str


Step = Reduce | Map | Add | Let | Log | Give | Pick | First | If | Put | Total | Scan


class Row(NamedTuple):
    """A kernel: its operands in order, and its steps. Texts may also name `n`, the row's length,
    and `a` and `b`, two numbers that a call passes. In a kernel with bands these are the number of
    rows and how many make a band, and the rows of a call are bands.
    """

    operands: tuple[tuple[str, Kind], ...]
    steps: tuple[Step, ...]
    # How many rows are taken at a time, far apart from each other.
    streams: int = 1
    # Whether NumPy makes the same bits, see exact_row_code.py.
    is_exact: bool = False

    @property
    def has_bands(self) -> bool:
        """Whether rows are added up in bands."""
        return any(kind == "bands" for _, kind in self.operands)

    @property
    def adds_turns(self) -> bool:
        """Whether rows of the same turn are added up, which one thread does."""
        return any(kind == "turn_sums" for _, kind in self.operands)

    @property
    def has_turns(self) -> bool:
        """Whether `b` rows take turns."""
        return any(kind in ("turns", "turn_sums", "turn_numbers") for _, kind in self.operands)

    @property
    def has_groups(self) -> bool:
        """Whether `a` rows after each other are a group."""
        return any(kind == "group_numbers" for _, kind in self.operands)


class Columns(NamedTuple):
    """A kernel that adds up texts' values of all rows, times `a`, in operands of their names."""

    operands: tuple[tuple[str, Kind], ...]
    texts: tuple[tuple[str, str], ...]
    # Whether a turn takes two vectors of half a line, or one of a line.
    in_halves: bool = False


class Short(NamedTuple):
    """A kernel that makes one number of each row, of many that are short: its sum, times `a`, or
    its greatest or least, NaN if there is one.
    """

    operands: tuple[tuple[str, Kind], ...]
    how: Literal["sum", "top", "bottom"]
    # How many vectors a turn takes of a row, of half a line each for float32.
    vectors: int = 2


def row(operands: str, *steps: Step) -> Row:
    """Return the Row of operands such as "x out weight:columns"; most operands are rows."""
    return Row(_operands(operands), steps)


def columns(operands: str, **texts: str) -> Columns:
    """Return the Columns of operands such as "g mean:numbers", to which a total for each text comes
    by its name.
    """
    totals = " ".join(f"{name}:totals" for name in texts)
    return Columns(_operands(f"{operands} {totals}"), tuple(texts.items()))


def _operands(words: str) -> tuple[tuple[str, Kind], ...]:
    pairs = [word.partition(":")[::2] for word in words.split()]
    return tuple([(name, kind or "rows") for name, kind in pairs])  # type: ignore[misc]


TOP = Reduce("top", "top", "x")
_MEAN = (Reduce("total", "sum", "x"), Let("centre", "total / n"))
# About a number that is near the mean, with what it is off.
_ABOUT = (
    Reduce("rest", "sum", "x - centre"),
    Reduce("squares", "sum", "square(x - centre)"),
    Let("off", "rest / n"),
    Let("spread", "squares - rest * off"),
)
# In one pass around the mean of the first numbers, unless that is a deviation or more away, when
# squares lose the digits of the difference, or too far away for float32's squares: then again, in
# float64. Around numbers of the row that is exact too: n numbers of which 16 are at most a
# deviation off have a mean that is at most sqrt(n / 16) of them off.
_SPREAD = (
    First("centre", "x"),
    *_ABOUT,
    If("logical_or(rest * off > spread, logical_or(isinf(spread), isnan(spread)))", _ABOUT),
)
# Note [Rows with one large share]
# Where one number is far above the others of its row, its share rounds to 1 and the logarithm of
# the total to 0, and their digits are lost long before. Such a row, of which the greatest number is
# the only one that has a share over 15/16, is added up again without it. Few rows of a model in
# training are such.
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
# Shifting by an infinite top would give inf - inf.
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
    """Return the steps to the gradient by x, with others where a row is read first."""
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

# Steps of the gradients of softmax and log_softmax that keep the digits of rows with one large
# share, for many numbers and for few. See Note [Slopes of rows with one large share] in
# fastdist/ops/nn/softmax.py.
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
    # about a
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
    # of attention
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
# For inputs that come from memory, APART reads several rows at once; PAIRED, for smaller ones,
# reads two streams: one row is added up while the other's sums are joined. The greatest of 1e5 and
# 1e6 in rows of 1000 are found in 3.9 and 43.7 us, 4.15 and 46 in one stream (one core of an AMD
# EPYC, Zen 4).
APART = ("sum", "squares", "sum_of_rows", "norm_of_rows", "top", "bottom")
PAIRED = ("sum_of_rows", "norm_of_rows", "top", "bottom", "layer_norm", "layer_norm_gradient")
KERNELS |= {f"{name}_apart": KERNELS[name]._replace(streams=4) for name in APART}  # type: ignore[call-arg]
KERNELS |= {f"{name}_paired": KERNELS[name]._replace(streams=2) for name in PAIRED}  # type: ignore[call-arg]
