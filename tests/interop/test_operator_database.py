"""fastdist's results, errors and writes equal PyTorch's, for samples of its operator database.

A few samples of each operator and all its error inputs are tested in three dtypes, and in two more
of the twelve in turn. `--slow` tests all dtypes. EXPLAINED lists the intended differences with
reasons; any other difference fails.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from types import MethodDescriptorType
from typing import Any

import pytest

pytestmark = [pytest.mark.interop("torch", "expecttest"), pytest.mark.timeout(600)]

PARTS = 48
# Random results: only shapes and dtypes can agree. Empty tensors have arbitrary content.
RANDOM = re.compile(
    r"bernoulli|multinomial|normal|rand|poisson|binomial|empty|new_empty|dropout|rrelu|"
    r"cauchy|exponential|geometric|uniform|fractional_max_pool|gumbel|_lowrank|multi_head_attention|scaled_dot_product_attention"
)
# Reasons for differences. The keys are regular expressions for the operator and for the check, with
# or without a dtype in front.
EXPLAINED: dict[tuple[str, str], str] = {
    (r"__r(add|and|mul|or|xor)__", r"mistake: accepted"): "a slot of C takes no number for self",
    (r"__rsub__", r"call: .*"): "PyTorch's, called with a number for self, says nothing",
    (r"__rpow__", r"call: raises"): "one whole exponent below 0 is refused, as pow refuses it",
    (r"chalf", r"call: raises"): "to(complex32) does it",
    (r"nn\.functional\.linear_cross_entropy\..*", r"call: raises"): "in pieces: refused in words",
    (r"max_pool2d_with_indices_backward", r"call: raises"): "of PyTorch's inner operators, aten",
    (r"scatter", r"call: raises"): "complex numbers are not reduced: refused in words",
    (r"gather", r"mistake: class"): "an index that an axis does not have is an IndexError anywhere",
    (r"(kthvalue|topk|.*sort|.*median|mode).*", r".*: value"): "any of equal ones may be named",
    (r"(.*\.)?(svd|eig|eigh|qr|lobpcg)", r".*: value"): "vectors may be turned about",
    (r"logcumsumexp", r".*: value"): "a logarithm's angle counts but for whole turns",
    (r"complex", r"float16 call: raises"): "complex() makes no complex32",
    (r"cov", r"call: value"): "PyTorch rounds weights to float32",
    (r"nn\.functional\.(interpolate|upsample).*", r"uint8 call: value"): (
        "of uint8 PyTorch's weights have few bits, and it rounds between two axes"
    ),
    (r"nn\.functional\.soft_margin_loss|matrix_exp", r"b?float16 .*: value"): (
        "in half types PyTorch overflows within, where the result does not"
    ),
    (
        r"(special\.)?polygamma.*",
        r"int.* call: value",
    ): "a pole is infinite, not 1 / sin(rounded pi)**2",
    (r"special\.bessel_.*", r".*: value"): "in float64 some of PyTorch's have seven digits",
    # differences of `out=`
    (r"(cumsum|cumprod)", r"out of a lesser dtype: accepts"): "PyTorch runs along no bool",
    (r"(nansum|lu)", r"out of a lesser dtype: raises"): (
        "PyTorch computes them in out's dtype, or casts without a word"
    ),
    (r"(diff|linalg\.matrix_power|linalg\.lstsq)", r"out of a .* dtype: raises"): (
        "PyTorch casts if the last of its inner ops does"
    ),
    (r"(bernoulli|cum.*|nanmean|nansum|std|var|round\..*)", r"out of a wider dtype: accepts"): (
        "PyTorch casts, but not to each dtype nor with each option"
    ),
    (r"fft\.ih?fft", r"out of a .* dtype: accepts"): (
        "PyTorch casts what it transforms, not what it conjugates behind that"
    ),
    (r"fft\.ihfft[2n]", r".*out.*"): "along one axis PyTorch leaves out alone",
    (r"(masked_select|kthvalue|take|cat|gather)", r"mistake: accepted"): (
        "an out that shares memory is written after all is read, so that nothing is lost"
    ),
    (r"nonzero", r".*out.*: accepts"): "with as_tuple=True out is left alone",
    (r"normal", r".*out: accepts"): "out is given another shape, as for any op",
    (r"(narrow_copy|nn\.functional\.(avg_pool3d|gelu))", r"out with gaps: value"): (
        "PyTorch writes side by side into an out with gaps, and beside it"
    ),
}


# By dtype: the number of samples of each entry. LESS is this number for two other dtypes, in turn.
MOST = {"float32": 8, "int64": 4, "complex64": 4}
OTHERS = (
    *("float64", "complex128", "float16", "bfloat16"),
    *("int8", "int16", "int32", "uint8", "bool"),
)
LESS, STEP = 2, 3


def some_dtypes(number: int) -> dict[str, int]:
    """Return the number of samples by dtype, for the database entry with this index."""
    turns = [OTHERS[(number + far) % len(OTHERS)] for far in (0, 4)]
    return {**MOST, **dict.fromkeys(turns, LESS)}


def differences(op: Any, dtypes: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield (check, difference) for an entry of the database, with these numbers of samples."""
    import torch

    from tests.interop.operator_database import NotOurs, Taken, ours_of, samples_of

    ours = ours_of(op)
    if ours is None:
        return
    for name, most in dtypes.items():
        dtype = getattr(torch, name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for number, sample in enumerate(samples_of(op, dtype, most, STEP)):
            try:
                for check, told in of_sample(op, ours, Taken(sample), deep=number < 2):
                    yield f"{name} {check}", f"sample {number * STEP}: {told}"
            except NotOurs:
                continue
    yield from of_mistakes(op, ours)


def of_sample(op: Any, ours: Any, taken: Any, *, deep: bool) -> Iterator[tuple[str, str]]:
    import torch

    from tests.interop.operator_database import leaves, tried

    by_chance = bool(RANDOM.search(op.name))
    given, our_given = taken.theirs(), taken.ours()
    theirs = tried(op.op, given[0], *given[1], **given[2])
    found = tried(ours, our_given[0], *our_given[1], **our_given[2])
    told = outcomes_differ("call", theirs, found, by_chance)
    if told is not None:
        yield told
        return
    if theirs[1] is not None:
        return
    if not by_chance:
        before = [one for one in leaves(given) if isinstance(one, torch.Tensor)]
        after = [one for one in leaves(our_given) if hasattr(one, "_layout")]
        told = outcomes_differ("inputs", (before, None), (after, None), False)
        if told is not None:
            yield told
    if deep and isinstance(taken.sample.input, torch.Tensor):
        yield from of_methods(op, taken, by_chance)
        if op.supports_out and "out" not in taken.sample.kwargs:
            yield from of_out(op, ours, taken, theirs[0], by_chance)


def outcomes_differ(check: str, theirs: Any, ours: Any, by_chance: bool) -> tuple[str, str] | None:
    from tests.interop.operator_database import differs

    if theirs[1] is None and ours[1] is None:
        told = differs(theirs[0], ours[0], by_chance=by_chance)
        return None if told is None else (f"{check}: {told.split(':')[0]}", told)
    if theirs[1] is not None and ours[1] is not None:
        return None
    which = "raises" if theirs[1] is None else "accepts"
    return f"{check}: {which}", repr(ours[1] or theirs[1])[:300]


def of_methods(op: Any, taken: Any, by_chance: bool) -> Iterator[tuple[str, str]]:
    import fastdist
    from tests.interop.operator_database import tried

    for check, method in (("method", op.method_variant), ("in place", op.inplace_variant)):
        if not isinstance(method, MethodDescriptorType):
            continue
        if check == "in place" and taken.sample.broadcasts_input:
            continue
        given, our_given = taken.theirs(), taken.ours()
        theirs = tried(method, given[0], *given[1], **given[2])
        ours = getattr(fastdist.Tensor, method.__name__, None)
        versions = [given[0]._version, our_given[0]._version]
        found = tried(ours, our_given[0], *our_given[1], **our_given[2])
        told = outcomes_differ(check, theirs, found, by_chance)
        if told is not None:
            yield told
        elif check == "in place" and theirs[1] is None and found[0] is not our_given[0]:
            yield "in place: is", "what is returned is not what was written"
        elif check == "in place" and theirs[1] is None:
            moved = [given[0]._version > versions[0], our_given[0]._version > versions[1]]
            if moved[0] and not moved[1]:
                yield "in place: version", "nobody learns that it was written"


def of_out(op: Any, ours: Any, taken: Any, result: Any, by_chance: bool) -> Iterator[Any]:
    import torch

    from tests.interop.operator_database import DTYPES, Taken, leaves, tried

    parts = leaves(result)
    if not all(isinstance(one, torch.Tensor) for one in parts):
        return
    for check, make in OUTS.items():
        outs = [make(one) for one in parts]
        wrapped: Any = outs[0] if isinstance(result, torch.Tensor) else tuple(outs)
        there = Taken(torch.testing._internal.opinfo.core.SampleInput(wrapped)).theirs()[0]
        here = Taken(torch.testing._internal.opinfo.core.SampleInput(wrapped)).ours()[0]
        given, our_given = taken.theirs(), taken.ours()
        theirs = tried(op.op, given[0], *given[1], **given[2], out=there)
        found = tried(ours, our_given[0], *our_given[1], **our_given[2], out=here)
        # Results computed in a smaller dtype only have its precision.
        computed = [
            [one.to(part.dtype) for one, part in zip(leaves(there), parts, strict=True)],
            [one.to(DTYPES[part.dtype]) for one, part in zip(leaves(here), parts, strict=True)],
        ]
        told = outcomes_differ(check, (computed[0], theirs[1]), (computed[1], found[1]), by_chance)
        if told is not None:
            yield told
        elif found[1] is None:
            for one, other in zip(leaves(found[0]), leaves(here), strict=True):
                if one is not other:
                    yield f"{check}: is", "what is returned is not out"


def _with_gaps(one: Any) -> Any:
    import torch

    if not one.dim():
        return torch.ones(3, dtype=one.dtype)[1]
    return torch.ones((*one.shape[:-1], 2 * one.shape[-1]), dtype=one.dtype)[..., ::2]


def _of(one: Any, shape: Any = None, dtype: Any = None) -> Any:
    import torch

    return torch.ones(one.shape if shape is None else shape, dtype=dtype or one.dtype)


def _whole(one: Any) -> Any:
    import torch

    if one.is_floating_point() or one.is_complex():
        return torch.int64
    return torch.uint8 if one.dtype is torch.bool else torch.bool


def _wider(one: Any) -> Any:
    import torch

    if one.is_complex() or one.dtype is torch.float64:
        return torch.complex128
    return torch.float64 if one.is_floating_point() else torch.float32


OUTS = {
    "out": _of,
    "out with gaps": _with_gaps,
    "empty out": lambda one: _of(one, (0,)),
    "longer out": lambda one: _of(one, [n + 1 for n in one.shape] or [1]),
    "out of a lesser dtype": lambda one: _of(one, dtype=_whole(one)),
    "out of a wider dtype": lambda one: _of(one, dtype=_wider(one)),
}


def of_mistakes(op: Any, ours: Any) -> Iterator[tuple[str, str]]:
    from tests.interop.operator_database import NotOurs, Taken, tried

    if op.error_inputs_func is None:
        return
    for number, mistake in enumerate(op.error_inputs("cpu")):
        taken = Taken(mistake.sample_input)
        try:
            given, our_given = taken.theirs(), taken.ours()
        except (NotOurs, NotImplementedError):
            continue
        _, error = tried(op.op, given[0], *given[1], **given[2])
        _, our_error = tried(ours, our_given[0], *our_given[1], **our_given[2])
        if error is None:
            continue
        if our_error is None:
            yield "any mistake: accepted", f"{number}: {error!r}"[:300]
        elif not isinstance(our_error, (mistake.error_type, type(error))):
            yield "any mistake: class", f"{number}: {error!r}, ours {our_error!r}"[:300]


def reason(name: str, check: str) -> tuple[str, str] | None:
    for key in EXPLAINED:
        whole, without_dtype = check, check.partition(" ")[2]
        if re.fullmatch(key[0], name) and any(
            re.fullmatch(key[1], one) for one in (whole, without_dtype)
        ):
            return key
    return None


def unexplained(part: int, dtypes: Callable[[int], dict[str, int]]) -> list[str]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tests.interop.operator_database import name_of, op_db

        for number, op in list(enumerate(op_db))[part::PARTS]:
            for check, told in differences(op, dtypes(number)):
                if reason(name_of(op), check) is None:
                    found.append(f"{name_of(op)}, {check}, {told}")
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_and_mistakes_agree(part: int) -> None:
    assert unexplained(part, some_dtypes) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_agree_in_every_dtype(part: int) -> None:
    assert unexplained(part, lambda _: dict.fromkeys((*MOST, *OTHERS), 8)) == []
