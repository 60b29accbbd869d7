"""Kernels along rows for small arrays, for which NumPy and a compiled loop give the same bits.

These kernels correspond to the kernels of row_steps, but have steps that need few NumPy calls. See
exact_row_code.py for the meaning of exact, and numpy_twins.py for the NumPy version.
"""

from __future__ import annotations

from typing import Final

from .row_steps import (
    HAS_LARGE_SHARE,
    HELD_BY_IT,
    IS_ONE,
    LARGEST_SHARE,
    SOFTMAX_GRADIENT_WIDE,
    TOP,
    WITH_LARGE_SHARE,
    Add,
    Give,
    If,
    Let,
    Log,
    Map,
    Pick,
    Put,
    Reduce,
    Row,
    Scan,
    Step,
    Total,
    row,
)  # fmt: skip


def _log(powers: str) -> tuple[Step, ...]:
    """Return the steps that compute the logarithm of a sum of powers; the greatest power is 1.

    See Note [Rows with one large share] in row_steps.py.
    """
    return (
        Log("log_total", "total"),
        If(
            IS_ONE,
            (
                Reduce("total", "sum", f"where(x < top, {powers}, T(0))"),
                Let("above", "T(1) + total"),
                Log("log_total", "above"),
                # log(1 + total)
                Let(
                    "log_total",
                    "where(above == T(1), total, log_total * total / (above - T(1)))",
                ),
            ),
        ),
    )


# The sum of squared deviations from the rounded mean, with a correction for the mean's rounding. It
# is computed again in float64 if the numbers or their squares overflow float32, or if all numbers
# are almost equal.
_ABOUT = (
    Reduce("total", "sum", "x"),
    Let("centre", "total / n", rounded=True),
    Reduce("rest", "sum", "x - centre"),
    Reduce("squares", "sum", "square(x - centre)"),
    Let("off", "rest / n"),
    Let("spread", "squares - rest * off"),
)
_SPREAD = (
    *_ABOUT,
    If("logical_or(rest * off > spread, logical_or(isinf(spread), isnan(spread)))", _ABOUT),
)
_LOSS = (
    Pick("chosen", "x", "target"),
    Let("loss", "log_total - (chosen - top)"),
)
_POWERS = (
    TOP,
    Map("weights", "exp(x - top)"),
    Reduce("total", "sum", "weights"),
    Give("totals", "total"),
)
_OF_NORMAL = "g x mean:numbers deviation:numbers"
_NORMAL = "((x - mean) * scale)"
_DOWN = (Add("by_weight", f"g * {_NORMAL}"), Add("by_bias", "g"))
_BANDS = "by_weight:bands by_bias:bands"
_TURN_SUMS = "by_weight:turn_sums by_bias:turn_sums"
_NORMAL_NUMBERS = (
    *_SPREAD,
    Let("size", "sqrt(spread / n + a)"),
    Let("scale", "T(1) / size"),
    Let("middle", "centre + off", rounded=True),
    Let("begin", "(centre - middle + off) * scale"),
)
_NORMALIZED = (
    *_NORMAL_NUMBERS,
    Map("out", "((x - middle) * scale - begin) * weight + bias"),
    Give("mean", "centre + off"),
    Give("deviation", "size"),
)


def _exact(operands: str, *steps: Step) -> Row:
    return row(f"{operands} table:table", *steps)._replace(is_exact=True)


def _slope(*others: Step) -> tuple[Step, ...]:
    """Return the steps of layer norm's gradient by x; the steps `others` join the first loop."""
    return (
        Let("scale", "T(1) / deviation"),
        Reduce("total", "sum", "g * weight"),
        Reduce("product", "sum", f"g * weight * {_NORMAL}"),
        *others,
        Let("even", "total / n"),
        Let("along", "product / n"),
        Map("out", f"(g * weight - even - {_NORMAL} * along) * scale"),
    )


SMALL: Final[dict[str, Row]] = {
    "small_cumsum": _exact("x out", Scan("out", "x"))._replace(streams=4),
    "small_cumsum_of_row": _exact("x out", Scan("out", "x")),
    "small_cumsum_gradient": _exact("x out", Scan("out", "x", True))._replace(streams=4),
    "small_cumsum_gradient_of_row": _exact("x out", Scan("out", "x", True)),
    "small_softmax": _exact(
        "x out",
        TOP,
        Map("out", "exp(x - top)"),
        Reduce("total", "sum", "out"),
        Let("share", "T(1) / total"),
        Map("out", "out * share"),
    ),
    "small_softmax_gradient": _exact(
        "g y out", Reduce("even", "sum", "g * y"), Map("out", "(g - even) * y")
    ),
    # See Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
    "small_softmax_gradient_wide": _exact(
        "g y out",
        *SOFTMAX_GRADIENT_WIDE,
    ),
    # The gradients of softmax_gradient by g and y, from q, the gradient of its result. Subtracting
    # a constant from g or q does not change these gradients.
    "small_softmax_second": _exact(
        "q g y by_g by_y",
        Reduce("even", "sum", "g * y"),
        Reduce("along", "sum", "q * y"),
        Reduce("rest", "sum", "(g - even) * y"),
        Reduce("left", "sum", "(q - along) * y"),
        Map("by_g", "((q - along) - left) * y"),
        Map("by_y", "(q - along) * ((g - even) - rest) - (g - even) * left"),
    ),
    "small_log_softmax_second": _exact(
        "q g y by_g by_y",
        Reduce("even", "sum", "g"),
        Map("by_y", "exp(y)"),
        Reduce("along", "sum", "q * by_y"),
        Reduce("left", "sum", "(q - along) * by_y"),
        Map("by_g", "(q - along) - left"),
        Map("by_y", "-(((q - along) - left) * by_y) * even"),
    ),
    "small_log_softmax": _exact(
        "x out",
        TOP,
        Reduce("total", "sum", "exp(x - top)"),
        *_log("exp(x - top)"),
        Map("out", "(x - top) - log_total"),
    ),
    "small_log_softmax_gradient": _exact(
        "g y out", Reduce("even", "sum", "g"), Map("out", "g - exp(y) * even")
    ),
    "small_log_softmax_gradient_wide": _exact(
        "g y out",
        *LARGEST_SHARE,
        If(
            HAS_LARGE_SHARE,
            (
                *HELD_BY_IT,
                Let("power", "exp(most)"),
                Log("log_power", "power"),
                # -expm1(most) * held - exp(most) * others
                Let(
                    "slope",
                    "left = where(power == T(1), most, (power - T(1)) * most / log_power); "
                    "-(left * held) - power * others",
                ),
            ),
        ),
        WITH_LARGE_SHARE,
    ),
    "small_logsumexp": _exact(
        "x powers out:numbers",
        TOP,
        Let("shift", "where(isinf(top), T(0), top)"),
        Map("powers", "exp(x - shift)"),
        Reduce("total", "sum", "powers"),
        *_log("powers"),
        Give("out", "shift + log_total"),
    ),
    "small_logsumexp_gradient": _exact(
        "g:numbers total:numbers x out", Map("out", "g * exp(x - total)")
    ),
    "small_cross_entropy": _exact(
        "x target:places losses:numbers weights totals:numbers wrong:outside",
        *_POWERS,
        *_log("weights"),
        *_LOSS,
        Give("losses", "loss"),
    ),
    # The sum of the losses of all rows, times a.
    "small_cross_entropy_of_all": _exact(
        "x target:places all:sum weights totals:numbers wrong:outside",
        *_POWERS,
        *_log("weights"),
        *_LOSS,
        Total("all", "loss"),
    ),
    "small_cross_entropy_gradient": _exact(
        "g:numbers target:places weights totals:numbers out wrong:outside",
        Let("given", "g * a"),
        Let("share", "given / totals"),
        Map("out", "weights * share"),
        Pick("own", "weights", "target"),
        Let("slope", "own * share - given"),
        # See Note [Rows with one large share] in row_steps.py.
        If(
            "own > totals * T(0.9375)",
            (
                Reduce("own", "sum", "where(weights < own, weights, T(0))"),
                Let("slope", "-(own * share)"),
            ),
        ),
        Put("out", "target", "slope"),
    ),
    # The gradients of small_cross_entropy_gradient by the logits and by g, from q, the gradient of
    # its result.
    "small_cross_entropy_second": _exact(
        "q g:numbers target:places weights totals:numbers by_x by_g:numbers wrong:outside",
        Let("part", "T(1) / totals"),
        Reduce("along", "sum", "q * weights"),
        Let("even", "along * part", rounded=True),
        Reduce("left", "sum", "(q - even) * weights"),
        Let("rest", "left * part"),
        Let("share", "g * a * part"),
        Map("by_x", "((q - even) - rest) * (weights * share)"),
        Pick("own", "q", "target"),
        Give("by_g", "(rest - (own - even)) * a"),
    ),
    "small_var": _exact("x out:numbers", *_SPREAD, Give("out", "spread * a")),
    "small_std": _exact("x out:numbers", *_SPREAD, Give("out", "sqrt(spread * a)")),
    "small_var_gradient": _exact(
        "g:numbers x out",
        Reduce("total", "sum", "x"),
        Let("centre", "total / n"),
        Let("even", "g * a"),
        Map("out", "(x - centre) * even"),
    ),
    # The gradients of small_var_gradient by g and x, from q, the gradient of its result.
    "small_var_second": _exact(
        "q g:numbers x by_g:numbers by_x",
        Reduce("total", "sum", "x"),
        Reduce("total_q", "sum", "q"),
        Let("centre", "total / n", rounded=True),
        Let("even", "total_q / n"),
        Let("scaled", "g * a"),
        Reduce("along", "sum", "q * (x - centre)"),
        Give("by_g", "(along - total_q * (total / n - centre)) * a"),
        Map("by_x", "(q - even) * scaled"),
    ),
    # The gradient of logsumexp, which is g times the softmax of a row. The next kernel computes the
    # gradients of this gradient by g and x.
    "small_logsumexp_slope": _exact(
        "g:numbers x out",
        TOP,
        Map("out", "exp(x - top)"),
        Reduce("total", "sum", "out"),
        Let("scale", "g / total"),
        Map("out", "out * scale"),
    ),
    "small_logsumexp_second": _exact(
        "q g:numbers x by_g:numbers by_x",
        TOP,
        Map("by_x", "exp(x - top)"),
        Reduce("total", "sum", "by_x"),
        Reduce("along", "sum", "q * by_x"),
        Let("even", "along / total", rounded=True),
        Reduce("left", "sum", "(q - even) * by_x"),
        Let("rest", "left / total"),
        Let("scale", "g / total"),
        Give("by_g", "rest + even"),
        Map("by_x", "((q - even) - rest) * (by_x * scale)"),
    ),
    "small_norm": _exact(
        "x out:numbers",
        Reduce("all", "sum", "square(x)"),
        If("isinf(all)", (Reduce("all", "sum", "square(x)"),)),
        Give("out", "sqrt(all)"),
    ),
    "small_norm_gradient": _exact(
        "g:numbers norm:numbers x out",
        Let("size", "where(norm == T(0), T(inf), norm)"),
        Map("out", "x / size * g"),
    ),
    # The second gradient of small_norm: q is the gradient of small_norm_gradient's result, from
    # which those with respect to g and x are computed. No norm may be 0.
    "small_euclidean_second": _exact(
        "q g:numbers norm:numbers x by_g:numbers by_x",
        Let("part", "T(1) / norm"),
        Reduce("along", "sum", "q * (x * part)"),
        Let("scale", "g * part"),
        Give("by_g", "along"),
        Map("by_x", "(q - (x * part) * along) * scale"),
    ),
    "small_layer_norm": _exact(
        "x weight:columns bias:columns out mean:numbers deviation:numbers", *_NORMALIZED
    ),
    "small_layer_norm_gradient": _exact(f"{_OF_NORMAL} weight:columns out", *_slope()),
    "small_layer_norm_gradients": _exact(
        f"{_OF_NORMAL} weight:columns out {_BANDS}", *_slope(*_DOWN)
    ),
    "small_normal_bands": _exact(
        f"{_OF_NORMAL} {_BANDS}", Let("scale", "T(1) / deviation"), *_DOWN
    ),
    # This kernel differentiates the input gradient of normalized rows: by u, which is g * weight,
    # and by the rows x. q is the gradient of the input gradient.
    "small_norm_second": _exact(
        "q u x mean:numbers deviation:numbers by_u by_x",
        Let("scale", "T(1) / deviation"),
        Reduce("total", "sum", "q"),
        Reduce("total_u", "sum", "u"),
        Reduce("product", "sum", f"q * {_NORMAL}"),
        Reduce("product_u", "sum", f"u * {_NORMAL}"),
        Reduce("both", "sum", "q * u"),
        Let("even", "total / n"),
        Let("even_u", "total_u / n"),
        Let("along", "product / n"),
        Let("along_u", "product_u / n"),
        Let("bent", "both / n - even * even_u - along * along_u"),
        Let("minus", "-square(scale)"),
        Map("by_u", f"(q - even - {_NORMAL} * along) * scale"),
        Map(
            "by_x",
            f"({_NORMAL} * bent + (q - even - {_NORMAL} * along) * along_u"
            f" + (u - even_u - {_NORMAL} * along_u) * along) * minus",
        ),
    ),
    "small_rms_second": _exact(
        "q u x scale:numbers by_u by_x",
        Reduce("product", "sum", "q * x"),
        Reduce("product_u", "sum", "u * x"),
        Reduce("both", "sum", "q * u"),
        Let("along", "product / n * square(scale)"),
        Let("along_u", "product_u / n * square(scale)"),
        Let("bent", "T(3) * along * along_u - both / n * square(scale)"),
        Map("by_u", "(q - x * along) * scale"),
        Map("by_x", "(x * bent - q * along_u - u * along) * scale"),
    ),
    # A row is a group of one sample. Group i of a sample uses row i of weight and bias.
    "small_group_norm": _exact(
        "x weight:turns bias:turns out mean:numbers deviation:numbers", *_NORMALIZED
    ),
    "small_group_norm_gradient": _exact(f"{_OF_NORMAL} weight:turns out", *_slope()),
    "small_group_norm_gradients": _exact(
        f"{_OF_NORMAL} weight:turns out {_TURN_SUMS}", *_slope(*_DOWN)
    ),
    # The statistics of groups. In the next two kernels, a row is a channel of a sample, and there
    # are `b` channels. In small_group_channels, `a` channels form a group; in small_known_channels,
    # `a` is eps.
    "small_group_numbers": _exact(
        "x mean:numbers deviation:numbers middles:numbers begins:numbers scales:numbers",
        *_NORMAL_NUMBERS,
        Give("mean", "centre + off"),
        Give("deviation", "size"),
        Give("middles", "middle"),
        Give("begins", "begin"),
        Give("scales", "scale"),
    ),
    "small_group_channels": _exact(
        "x middles:group_numbers begins:group_numbers scales:group_numbers weight:turn_numbers"
        " bias:turn_numbers out",
        Let("by", "scales * weight"),
        Let("off", "bias - begins * weight"),
        Map("out", "(x - middles) * by + off"),
    ),
    "small_known_channels": _exact(
        "x weight:turn_numbers bias:turn_numbers mean:turn_numbers variance:turn_numbers out",
        Let("by", "weight / sqrt(variance + a)"),
        Let("off", "bias - mean * by"),
        Map("out", "x * by + off"),
    ),
    # A row is a channel; each of its positions gets the channel's number.
    "small_channel_numbers": _exact(
        "weight:numbers bias:numbers scale shift", Map("scale", "weight"), Map("shift", "bias")
    ),
    "small_known_numbers": _exact(
        "weight:numbers bias:numbers mean:numbers variance:numbers scale shift",
        Let("by", "weight / sqrt(variance + a)"),
        Let("off", "bias - mean * by"),
        Map("scale", "by"),
        Map("shift", "off"),
    ),
    "small_known_parts": _exact(
        "weight:numbers mean:numbers variance:numbers times middle scale",
        Let("by", "T(1) / sqrt(variance + a)"),
        Map("times", "weight"),
        Map("middle", "mean"),
        Map("scale", "by"),
    ),
    "small_known_gradients": _exact(
        f"g x times:turns middle:turns scale:turns out {_TURN_SUMS}",
        Map("out", "g * (times * scale)"),
        Add("by_weight", "g * ((x - middle) * scale)"),
        Add("by_bias", "g"),
    ),
    "small_scaled": _exact("x scale:columns shift:columns out", Map("out", "x * scale + shift")),
    # A row is a sample, with one number per channel; a is 1 / the number of samples.
    "small_column_totals": _exact("x total:turn_sums", Add("total", "x")),
    "small_column_spreads": _exact(
        "x total:turns squares:turn_sums rest:turn_sums",
        Add("squares", "square(x - total * a)"),
        Add("rest", "x - total * a"),
    ),
    # This kernel has one row; b is eps. `rest` corrects for the rounding of the mean. It is NaN or
    # infinite if the total is infinite.
    "small_column_numbers": _exact(
        "total squares rest weight bias mean variance scale shift",
        Map("mean", "where(isinf(total), total, total * a + rest * a)"),
        Map("variance", "squares * a - square(rest * a)"),
        Map("scale", "weight / sqrt(squares * a - square(rest * a) + b)"),
        Map("shift", "bias - rest * a * scale"),
    ),
    "small_column_norm": _exact(
        "x total:columns scale:columns shift:columns out",
        Map("out", "(x - total * a) * scale + shift"),
    ),
    "small_column_scales": _exact("variance scale", Map("scale", "T(1) / sqrt(variance + b)")),
    "small_column_sums": _exact(f"g x mean:turns scale:turns {_TURN_SUMS}", *_DOWN),
    "small_column_gradient": _exact(
        "g x mean:columns scale:columns weight:columns by_weight:columns by_bias:columns out",
        Map(
            "out",
            f"(g - by_bias * a - {_NORMAL} * (by_weight * a)) * (scale * weight)",
        ),
    ),
    # Running means and variances of channels, with momentum a; b is the factor that makes the
    # variance unbiased. As in PyTorch, with a = 1 the running statistics become those of the batch.
    "small_followed": _exact(
        "mean variance running_mean running_variance",
        Map("running_mean", "mean * a + running_mean * (T(1) - a)"),
        Map("running_variance", "variance * b * a + running_variance * (T(1) - a)"),
    ),
    "small_rms_norm": _exact(
        "x weight:columns out scale:numbers",
        Reduce("squares", "sum", "square(x)"),
        If("isinf(squares)", (Reduce("squares", "sum", "square(x)"),)),
        Let("by", "T(1) / sqrt(squares / n + a)"),
        Map("out", "x * by * weight"),
        Give("scale", "by"),
    ),
    "small_rms_norm_gradient": _exact(
        "g x weight:columns scale:numbers out",
        Reduce("product", "sum", "g * weight * x"),
        Let("along", "product / n * square(scale)"),
        Map("out", "(g * weight - x * along) * scale"),
    ),
    "small_scaled_bands": _exact(
        "g x scale:numbers by_weight:bands", Add("by_weight", "g * x * scale")
    ),
}  # fmt: skip
