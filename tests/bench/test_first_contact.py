"""The first check of a GPU reports what passes and what fails; here it runs on the CPU shim."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.gpus import first_contact, other_process
from bench.gpus.first_contact import Sample, checks, samples
from bench.gpus.library_calls import PROVEN_BY
from fastdist.devices.cuda import CudaBackend
from fastdist.dispatch.composite import COMPOSITES
from fastdist.dispatch.op import OPS
from tests.fibre_shim.installed import cuda_on_fibres
from tests.ops import test_table

pytestmark = pytest.mark.usefixtures("forks")


# The program of the second process, which one of the checks starts.
ON_FIBRES = (
    "from tests.fibre_shim.installed import be_on_fibres; be_on_fibres(); "
    "from bench.gpus.other_process import answer; answer()"
)
X = np.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module")
def made() -> list[Sample]:
    return list(samples())


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    monkeypatch.setattr(other_process, "COMMAND", [sys.executable, "-c", ON_FIBRES])
    yield from cuda_on_fibres(monkeypatch)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the check that starts a second process, because each start takes time."""
    passed = first_contact.Verdict("in another process", True, "")
    monkeypatch.setattr(first_contact, "_in_another_process", lambda device: passed)


@pytest.mark.one_in(4)
def test_every_op_and_composite_of_the_table_is_looked_at(made: list[Sample]) -> None:
    names = {one.name.rpartition("-")[0] or one.name for one in made}
    covered = names | test_table.COVERED_BY.keys() | test_table.ELSEWHERE
    hidden = {name for name, op in OPS.items() if "nowhere" in op.homes or not op.homes}
    assert {*OPS, *COMPOSITES} - covered - hidden == set()


@pytest.mark.one_in(4)
def test_what_is_right_passes_with_its_error_and_time(
    cuda: CudaBackend, made: list[Sample]
) -> None:
    known = [one for one in made if one.name in ("softmax-0", "tanh", "gather-0", "eq")]
    *of_ops, stream, drawn, other = checks(known)
    assert [verdict.name for verdict in of_ops] == [one.name for one in known]
    assert all(verdict.passed for verdict in (*of_ops, stream, drawn, other))
    assert all("relative error" in str(v) and str(v).endswith("us there and back") for v in of_ops)
    assert str(stream).startswith("PASS  on a side stream")
    assert str(drawn).startswith("PASS  random numbers  normals to ")
    assert str(other).startswith("PASS  in another process  4 MiB in ")


@pytest.mark.one_in(4)
def test_a_gpu_that_no_other_process_can_read_fails_and_says_why(
    cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ON_FIBRES.replace("; from bench", "; import sys; sys.exit('refused') ; from bench")
    monkeypatch.setattr(other_process, "COMMAND", [sys.executable, "-c", refused])
    assert other_process.reads_this_one("cuda:0") == (False, "refused")


def test_calls_of_libraries_are_proven_before_all_else(made: list[Sample]) -> None:
    ordered = first_contact.proofs_first(made)
    proofs = list(dict.fromkeys(sample for _, sample in PROVEN_BY.values()))
    assert [one.name for one in ordered[: len(proofs)]] == proofs
    assert sorted(one.name for one in ordered) == sorted(one.name for one in made)
    told = first_contact.what_it_proves("linalg.svd-0")
    assert told == "  by cusolver.gesvd (cuSOLVER), cusolver.gesvd_bufferSize (cuSOLVER)"
    assert first_contact.what_it_proves("exp") == ""


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("alone")
def test_ops_that_take_complex_numbers_have_a_row_of_them(
    cuda: CudaBackend, made: list[Sample]
) -> None:
    of_complex = {one.name: one for one in made if one.name.endswith(" complex")}
    known = [
        of_complex[f"{name} complex"] for name in ("exp pointwise", "matmul-0", "linalg.inv-0")
    ]
    assert len(of_complex) > 250
    assert all(array.dtype == np.complex128 for one in known for array in one.arrays)
    *verdicts, _, _, _ = checks(known)
    assert all(one.passed for one in verdicts), verdicts


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("alone")
def test_what_there_is_no_time_for_fails(cuda: CudaBackend, made: list[Sample]) -> None:
    known = [one for one in made if one.name in ("tanh", "eq")]
    first, *_ = checks(known, until_s=0.0)
    assert str(first) == "FAIL  2 samples  5 minutes were too short for them"


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("alone")
def test_what_is_wrong_fails_and_says_how(cuda: CudaBackend) -> None:
    def near(x: Any) -> Any:
        return x * (1 + 1e-6) if x.is_cuda else x * 1.0

    def lost(x: Any) -> Any:
        return x * 1.0 if x.is_cuda else x * float("nan")

    def short(x: Any) -> Any:
        return x[:1] * 1.0 if x.is_cuda else x * 1.0

    def broken(x: Any) -> Any:
        if x.is_cuda:
            raise RuntimeError("no kernel\nand more")
        return x * 1.0

    known = [Sample(f.__name__, f, [X], f is near) for f in (near, lost, short, broken)]
    verdicts = list(checks(known))[:4]
    assert [verdict.passed for verdict in verdicts] == [False] * 4
    found = [verdict.found for verdict in verdicts]
    assert found[0].startswith("relative error 1.0e-06")
    assert found[1].startswith("relative error inf") and found[2].startswith("relative error inf")
    assert str(verdicts[3]) == "FAIL  broken  RuntimeError: no kernel"


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([np.inf, 1.0], [-np.inf, 1.0], np.inf),
        ([0.0, 4.0], [1.0, 4.0], 0.25),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_an_error_is_relative_and_loses_no_nan(
    found: list[float], expected: list[float], error: float
) -> None:
    assert first_contact._error(np.array(found), np.array(expected), 4.0) == error
