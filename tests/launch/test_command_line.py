"""Mistakes on the command line of `fastdist run` are reported in a line before anything starts."""

from __future__ import annotations

import re
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.installation import state
from fastdist.launch import main as launch_main
from fastdist.launch.options import parse_options
from fastdist.launch.torchrun_flags import INSTEAD


def test_a_torch_that_was_replaced_is_reported_before_the_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(state, "note", lambda: "torch was replaced")
    monkeypatch.setattr(launch_main, "launch", lambda *_: 0)
    for flags, told in (([], ""), (["--as-torch"], "fastdist run: torch was replaced\n")):
        assert launch_main.main([*flags, str(tmp_path / "train.py")]) == 0
        assert capsys.readouterr().err == told


@pytest.mark.one_in(7)
def test_a_script_that_is_missing_is_an_error_before_anything_starts(run_command: Any) -> None:
    run = run_command("-n", "2", "no_such_script.py")
    assert run.end() == 2
    assert b"there is no script 'no_such_script.py' here" in run.err


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("this_module_is_missing", "No module named this_module_is_missing: nothing of that name"),
        ("train.py", "-m takes a module's name, got 'train.py': leave out -m, or say -m train"),
        ("", "No module named : nothing of that name"),
    ],
)
def test_a_module_that_is_missing_is_an_error_before_anything_starts(
    run_command: Any, name: str, message: str
) -> None:
    run = run_command("-n", "2", "-m", name, "--epochs", "-n", "5")
    assert run.end() == 2
    assert message in run.err.decode()


@pytest.mark.one_in(7)
def test_a_module_inside_a_package_that_is_missing_is_named(run_command: Any) -> None:
    run = run_command("-m", "json.this_module_is_missing")
    assert run.end() == 1
    assert b"No module named json.this_module_is_missing" in run.err


def test_a_module_in_a_folder_that_was_removed_is_an_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    with pytest.raises(SystemExit) as told:
        parse_options(["-m", "json.tool"])
    assert told.value.code == 2
    assert "fastdist run: the current folder has been removed" in capsys.readouterr().err


def test_no_program_is_an_error_that_shows_a_whole_command(run_command: Any) -> None:
    run = run_command("-n", "3")
    assert run.end() == 2
    assert run.err.startswith(b"python -m fastdist.run: PROGRAM is missing\nfor example: ")


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-n", "0"), "--nproc-per-node must be a whole number from 1 up, got '0'"),
        (("-n", "two"), "--nproc-per-node must be a whole number from 1 up, got 'two'"),
        (("-n", "100000000"), "--nproc-per-node 100000000 is more than this machine holds: it has"),
        (("--nproc", "2"), "unknown: --nproc; did you mean --nproc-per-node?"),
        (("--nodes=2",), "unknown: --nodes=2; did you mean --nnodes?"),
        (("--rdzv-backend", "etcd"), "--rdzv-backend etcd is not supported: nodes meet at a store"),
        (("--rdzv-endpoint", ":29500"), "--rdzv-endpoint is ':29500'; expected HOST:PORT"),
        (
            ("--rdzv-endpoint=10.0.0.1:29500", "--master-port=29501"),
            "--rdzv-endpoint 10.0.0.1:29500 contradicts --master-port 29501: give one",
        ),
        (
            ("--rdzv-endpoint=10.0.0.1", "--nnodes=2", "--rdzv-backend=static"),
            "--nnodes 2 needs --node-rank: 0 to 1, another on each node",
        ),
        (("--max-restart=2",), "unknown: --max-restart=2; did you mean --max-restarts?"),
        (("--nnodes", "two"), "--nnodes must be a whole number from 1 up, or MIN:MAX, got 'two'"),
        (("--nnodes", "0:4"), "--nnodes must be a whole number from 1 up, or MIN:MAX, got '0:4'"),
        (("--nnodes", "4:1"), "--nnodes 4:1: expected MIN:MAX, where MIN is not more than MAX"),
        (("--nnodes", "1:4"), "--nnodes 4 needs --node-rank: 0 to 3, another on each node"),
        (("--rejoin-timeout", "soon"), "--rejoin-timeout is 'soon'; expected seconds, such as 60"),
        (("--monitor-interval", "x"), "--monitor-interval is 'x'; expected seconds, such as 0.1"),
        (("--rdzv-conf", "tmeout=3"), "--rdzv-conf 'tmeout=3': expected NAME=VALUE; known: close_"),
        (("--standalone", "--master-port=29500"), "leave out --master-port 29500"),
        (("--node-rank", "1"), "--node-rank must be from 0 to 0 (--nnodes is 1), got '1'"),
        (
            ("--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=0"),
            "--master-port 0 takes a free port, which other nodes cannot know: give all nodes",
        ),
        (("--master-port", "70000"), "--master-port must be from 1 to 65535, got '70000'"),
        (("--nnodes", "2", "--node-rank", "0"), "--nnodes 2 needs --master-addr and --master-port"),
        (("--local-addr", "203.0.113.7"), "--local-addr: '203.0.113.7' is not an address of"),
        (("--master-addr", "203.0.113.7"), "--master-addr: '203.0.113.7' is not an address of"),
    ],
)
def test_a_wrong_flag_is_an_error_before_anything_starts(
    start_run: Any, flags: tuple[str, ...], message: str
) -> None:
    run = start_run('print("started")', *flags)
    assert run.end() == 2
    assert message in " ".join(run.err.decode().split())
    assert b"usage" not in run.err
    assert run.out == b""


def test_underscores_do_for_torchrun_and_stay_out_of_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = parse_options(["--nproc_per_node", "3", "--master_port=29500", __file__])
    assert (options.workers_per_node, options.master_port) == (3, 29500)
    with pytest.raises(SystemExit):
        parse_options(["--help"])
    assert "_per_" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("10.0.0.1:29500", ("10.0.0.1", 29500)),
        ("head", ("head", 29400)),
        ("[::1]:29500", ("::1", 29500)),
        ("[::1]", ("::1", 29400)),
    ],
)
def test_torchrun_s_line_for_several_nodes_is_taken(endpoint: str, place: tuple[str, int]) -> None:
    line = ["--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}", "--rdzv_id", "job7"]
    options = parse_options([*line, "--nnodes=2", "--node-rank=1", __file__])
    assert (options.master_address, options.master_port, options.run_id) == (*place, "job7")


def test_torchrun_s_settings_mean_the_options_here() -> None:
    line = ["--rdzv-conf=join_timeout=30,last_call_timeout=5,is_host=1", "--monitor-interval=0.1"]
    line += ["--role=trainer", "--nnodes=2:4", "--node-rank=1", "--rdzv-endpoint=10.0.0.1:29500"]
    options = parse_options([*line, __file__])
    assert (options.init_timeout_s, options.rejoin_timeout_s) == (30.0, 5.0)
    assert (options.least_nodes, options.nodes, options.role) == (2, 4, "trainer")
    # fastdist's own option has precedence.
    options = parse_options([*line, "--init-timeout=7", __file__])
    assert options.init_timeout_s == 7.0


def test_torchrun_s_line_for_several_jobs_of_one_machine_takes_a_free_port(start_run: Any) -> None:
    text = 'import os; print(os.environ["TORCHELASTIC_RUN_ID"], os.environ["MASTER_ADDR"])'
    run = start_run(text, "--rdzv-endpoint=localhost:0", "--rdzv-backend=c10d", "--rdzv-id=job7")
    assert run.end() == 0
    assert run.out == b"[rank 0] job7 localhost\n"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("flag", INSTEAD)
@pytest.mark.parametrize("style", ["{}={}", "{} {}", "under"])
def test_a_flag_of_torchrun_s_that_is_not_done_is_an_error_that_says_what_to_do(
    flag: str, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written = flag if style != "under" else "--" + flag[2:].replace("-", "_")
    form = "{}={}" if style == "under" else style
    with pytest.raises(SystemExit) as told:
        parse_options([*form.format(written, "x").split(), "-n2", __file__])
    assert told.value.code == 2
    assert capsys.readouterr().err == f"fastdist run: {flag} is not supported: {INSTEAD[flag]}\n"


def test_what_is_not_done_is_none_of_what_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--help"])
    taken = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert taken and not taken & set(INSTEAD)


def test_flags_that_say_what_is_done_anyway_are_taken() -> None:
    for port in ([], ["--master-port=0"]):
        options = parse_options(["--standalone", "--nnodes=1:1", "--node_rank=0", *port, __file__])
        assert (options.nodes, options.master_port) == (1, None)


def test_a_role_is_passed_on_to_the_workers(start_run: Any) -> None:
    text = """
    import os
    print(*[os.environ[f"ROLE_{name}"] for name in ("NAME", "RANK", "WORLD_SIZE")])
    """
    run = start_run(text, "-n2", "--role=trainer")
    assert run.end() == 0
    assert sorted(run.out.splitlines()) == [b"[rank 0] trainer 0 2", b"[rank 1] trainer 1 2"]


def test_a_port_that_is_taken_is_an_error_before_anything_starts(start_run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = start_run('print("started")', "--master-port", str(port))
        assert run.end() == 2
    assert f"port {port} of '127.0.0.1' is taken".encode() in run.err
    assert run.out == b""


def test_a_given_secret_is_checked_before_anything_starts(start_run: Any) -> None:
    run = start_run('print("started")', environment={"FASTDIST_JOB_SECRET": "abc"})
    assert run.end() == 2
    assert b"FASTDIST_JOB_SECRET: the job secret has 2 bytes, expected 32" in run.err
    assert run.out == b""


@pytest.mark.one_in(7)
def test_more_workers_than_open_files_are_an_error_before_anything_starts(start_run: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        run = start_run('print("started")', "-n", "60", is_child=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert run.end() == 2
    assert b"--nproc-per-node 60 needs 304 open files, and this process may open 256" in run.err
    assert run.out == b""


@pytest.mark.parametrize("as_module", [False, True])
def test_a_folder_that_hides_the_package_is_an_error_before_anything_starts(
    as_module: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fastdist").mkdir()
    (tmp_path / "beside.py").touch()
    monkeypatch.chdir(tmp_path)
    program = ["-m", "beside"] if as_module else [str(tmp_path / "beside.py")]
    # As in an editable install, no entry of sys.path contains the package.
    checkout = Path(fastdist.__file__).parents[1]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if Path(entry) != checkout])
    with pytest.raises(SystemExit) as told:
        parse_options(program)
    assert told.value.code == 2
    # If an entry of sys.path contains the package, Python finds it, although the empty folder of
    # the same name comes first.
    monkeypatch.setattr(sys, "path", [*sys.path, str(checkout)])
    assert parse_options(program).is_module == as_module


def test_an_address_in_the_environment_that_is_not_this_machine_s_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTDIST_ADDRESS", "192.0.2.1")
    with pytest.raises(SystemExit):
        parse_options([__file__])
    assert "FASTDIST_ADDRESS: '192.0.2.1' is not an address of this" in capsys.readouterr().err
