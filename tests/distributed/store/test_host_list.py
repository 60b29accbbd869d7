"""The first host of Slurm's host lists, and the errors for invalid lists."""

from __future__ import annotations

import pytest

from fastdist.core.errors import RendezvousError
from fastdist.distributed.store.host_list import expand_first_host


@pytest.mark.parametrize(
    ("node_list", "first"),
    [
        ("node7", "node7"),
        ("node7,node9", "node7"),
        ("node[07-09,12],gpu3", "node07"),
        ("gpu[3]", "gpu3"),
        ("rack1-node[1,5]-ib", "rack1-node1-ib"),
        ("rack[0-1]_blade[0-2]", "rack0_blade0"),
        ("a[1-2]b[3,5-6]c", "a1b3c"),
        ("r[3,1-2]n[010-100],login", "r3n010"),
        ("[11-12]x", "11x"),
        ("x[1][2][03]", "x1203"),
        ("n[9-11]", "n9"),
        ("n[0-999999999999999999999]", "n0"),
        ("c[08-10].cluster.local", "c08.cluster.local"),
        ("tux[000x13B,200]", "tux000"),
        ("a[1,2],b[3-4]c[5]", "a1"),
        (" n1 n2\n", "n1"),
        (",,n1,,n2,", "n1"),
        ("node-a,node-b[1-2]", "node-a"),
        ("é[1-2]", "é1"),
    ],
)
def test_the_first_host_of_a_list_is_found(node_list: str, first: str) -> None:
    assert expand_first_host(node_list) == first


@pytest.mark.parametrize(
    ("node_list", "why"),
    [
        ("", "it names no host"),
        (" , ", "it names no host"),
        ("n[1-2", "the bracket at character 2 is not closed"),
        ("n1,m[1-2", "the bracket at character 5 is not closed"),
        ("n1]", "the bracket at character 3 was not opened"),
        ("n[1[2]]", r"[1[2] holds '1[2', which is not a number"),
        ("n[]", "[] holds '', which is not a number or a range of numbers"),
        ("n[1,,2]", "[1,,2] holds '', which is not a number"),
        ("n[1,]", "[1,] holds '', which is not a number"),
        ("n[1-]", "[1-] holds '1-', which is not a number"),
        ("n[-1]", "[-1] holds '-1', which is not a number"),
        ("n[1-2-3]", "[1-2-3] holds '1-2-3', which is not a number"),
        ("n[a-c]", "[a-c] holds 'a-c', which is not a number"),
        ("n[1, 2]", "[1, 2] holds ' 2', which is not a number"),
        ("n[\u0661-\u0662]", "which is not a number"),
        ("n[00x1]", "[00x1] holds '00x1', which is not a number"),
        ("n[3-1]", "[3-1] holds the range 3-1, which ends before it begins"),
        ("n[01x10]", "[01x10] holds the range 01x10, which ends before it begins"),
        # An error after the first host also makes the list invalid.
        ("n1,m[2-1]", "[2-1] holds the range 2-1, which ends before it begins"),
    ],
)
def test_what_is_no_list_is_an_error_that_says_why(node_list: str, why: str) -> None:
    with pytest.raises(RendezvousError) as error:
        expand_first_host(node_list, "SLURM_STEP_NODELIST")
    assert str(error.value).startswith(f"SLURM_STEP_NODELIST is {node_list!r}: ")
    assert why in str(error.value)
    assert str(error.value).endswith("; expected a list of hosts, such as node[07-09,12],gpu3")
