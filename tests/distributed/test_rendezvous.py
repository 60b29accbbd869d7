"""Workers learn their rank and find the store from arguments, URLs and launchers' variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.kept_port import KeptPort
from fastdist import distributed as dist
from fastdist.core.errors import (
    AuthenticationError,
    RendezvousError,
    StoreError,
    StoreTimeoutError,
)
from fastdist.distributed import rendezvous as rendezvous_module
from fastdist.distributed.rendezvous import (
    Rendezvous,
    from_env,
    register_rendezvous_handler,
    rendezvous,
    worker_address,
    worker_security,
)
from fastdist.distributed.sockets import CurveSecurity, JobSecret, NoSecurity
from fastdist.distributed.store import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    host_store,
)
from fastdist.distributed.store.environment import num_workers_here
from tests.distributed.certificates import make_certificates

FASTDIST = {
    "FASTDIST_RANK": "1",
    "FASTDIST_WORLD_SIZE": "4",
    "FASTDIST_LOCAL_RANK": "1",
    "FASTDIST_STORE_HOST": "10.0.0.7",
    "FASTDIST_STORE_PORT": "4410",
    "FASTDIST_RUN_ID": "run",
    "FASTDIST_RESTART_COUNT": "2",
    "FASTDIST_STORE_HOSTED": "1",
}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "elastic",
    "TORCHELASTIC_RESTART_COUNT": "1",
    "TORCHELASTIC_MAX_RESTARTS": "3",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "node[07-09,12],gpu3",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_RANK": "2",
    "PMIX_NAMESPACE": "prterun-host-123@1",
    "PMIX_SERVER_URI41": "x",
}
PMI = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "1",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "4410",
}
KUBERNETES = {
    "JOB_COMPLETION_INDEX": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "train-w-0-0.train",
    "MASTER_PORT": "4410",
}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (FASTDIST, ("no launcher", 1, 4, 1, "10.0.0.7", 4410, True, "run", 2)),
        (TORCHRUN, ("torchrun", 3, 8, 1, "10.0.0.1", 29501, False, "elastic", 1)),
        (SLURM, ("Slurm", 5, 8, 1, "node07", None, False, "4711", 0)),
        (OPEN_MPI, ("Open MPI", 2, 3, 2, "127.0.0.1", None, False, "prterun-host-123@1", 0)),
        (PMI, ("PMI", 1, 2, 1, "node1", 4410, False, "none", 0)),
        (KUBERNETES, ("Kubernetes", 1, 2, 0, "train-w-0-0.train", 4410, False, "none", 0)),
    ],
    ids=["fastdist", "torchrun", "slurm", "open-mpi", "pmi", "kubernetes"],
)
def test_each_launcher_is_understood(
    environment: dict[str, str], expected: tuple[object, ...]
) -> None:
    place = from_env(environment)
    assert 20_000 <= place.store_port <= 60_000 or place.store_port == 4410
    port = place.store_port if expected[5] is None else expected[5]
    assert (
        place.launcher,
        place.rank,
        place.world_size,
        place.local_rank,
        place.store_host,
        place.store_port,
        place.store_hosted,
        place.run_id,
        place.incarnation,
    ) == (*expected[:5], port, *expected[6:])


def test_the_first_launcher_whose_rank_is_set_is_believed() -> None:
    # mpirun may start srun, which starts torchrun: the innermost launcher has the right rank.
    assert from_env(OPEN_MPI | SLURM | TORCHRUN).launcher == "torchrun"
    assert from_env(OPEN_MPI | SLURM).launcher == "Slurm"


def test_fastdist_variables_go_before_the_launchers() -> None:
    place = from_env(TORCHRUN | FASTDIST)
    assert (place.launcher, place.rank, place.world_size) == ("torchrun", 1, 4)
    assert (place.store_host, place.store_port) == ("10.0.0.7", 4410)


def test_explicit_arguments_go_before_everything() -> None:
    place = from_env(TORCHRUN | FASTDIST, rank=0, world_size=2)
    assert (place.rank, place.world_size) == (0, 2)


def test_torchruns_own_store_keeps_its_port() -> None:
    assert from_env(TORCHRUN).store_port == 29501
    assert from_env(TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "False"}).store_port == 29500
    assert from_env(TORCHRUN | {"FASTDIST_STORE_PORT": "4410"}).store_port == 4410


def test_a_restarted_round_does_not_share_keys_with_the_one_before() -> None:
    rounds = [
        from_env(TORCHRUN | {"FASTDIST_RESTART_COUNT": count, "TORCHELASTIC_RUN_ID": run})
        for count, run in (("0", "a"), ("1", "a"), ("0", "b"))
    ]
    assert len({place.round_name for place in rounds}) == 3


def test_torchrun_s_count_of_a_node_s_own_failures_keeps_no_nodes_apart() -> None:
    nodes = [from_env(TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": count}) for count in ("0", "1")]
    assert [place.incarnation for place in nodes] == [0, 1]
    assert nodes[0].round_name == nodes[1].round_name


def test_a_worker_that_comes_back_alone_finds_the_keys_of_those_who_live_on() -> None:
    counts = [{"FASTDIST_RESTART_COUNT": count} for count in ("0", "1")]
    alone = {"FASTDIST_ALLOW_RESTART": "worker"}
    first, again = (from_env(FASTDIST | count | alone) for count in counts)
    assert first.round_name == again.round_name
    assert (first.incarnation, again.incarnation) == (0, 1)
    with pytest.raises(RendezvousError, match="FASTDIST_ALLOW_RESTART is 'yes'; expected worker"):
        from_env(FASTDIST | {"FASTDIST_ALLOW_RESTART": "yes"})


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_a_group_that_was_started_again_sees_none_of_its_earlier_rounds_keys(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = host_store()
    monkeypatch.setenv("FASTDIST_STORE_HOSTED", "1")
    url = f"tcp://127.0.0.1:{port}" if kind == "tcp" else f"file://{tmp_path}/store"
    found = []
    for count in ("0", "1", "2", "2"):
        monkeypatch.setenv("FASTDIST_RESTART_COUNT", count)
        with rendezvous(url, 0, 2).store as store:
            found.append(store.check(["key"]))
            store.set("key", count)
    host.close()
    assert found == [False, False, False, True]


def test_all_workers_of_a_slurm_job_agree_on_the_port_and_other_jobs_do_not() -> None:
    ports = [from_env(SLURM | {"SLURM_PROCID": rank}).store_port for rank in "0123"]
    assert len(set(ports)) == 1
    assert from_env(SLURM | {"SLURM_JOB_ID": "4712"}).store_port != ports[0]


@pytest.mark.parametrize("name", ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"])
def test_the_store_of_a_slurm_job_is_on_the_first_host_of_its_list(name: str) -> None:
    slurm = {key: value for key, value in SLURM.items() if key != "SLURM_JOB_NODELIST"}
    assert from_env({**slurm, name: "rack[0-1]_blade[0-2]"}).store_host == "rack0_blade0"
    with pytest.raises(RendezvousError, match=rf"{name} is 'n\[2-1\]': .* ends before it begins"):
        from_env({**slurm, name: "n[2-1]"})


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, r"the rank of this worker is not known: FASTDIST_RANK or RANK is not set"),
        (TORCHRUN | {"RANK": "three"}, r"RANK is 'three'; expected a number, 0 or more"),
        (TORCHRUN | {"RANK": "-1"}, r"RANK is '-1'; expected a number"),
        (TORCHRUN | {"RANK": "8"}, r"rank is 8; expected 0 to 7 in a world of 8"),
        (TORCHRUN | {"WORLD_SIZE": ""}, r"the number of workers is not known: .* WORLD_SIZE"),
        ({}, r"expected a number, 0 or more\. Start the program .* as `fastdist run -n 2 \w+\.py`"),
        ({}, r"or give rank= and world_size= as arguments, and init_method="),
        (TORCHRUN | {"MASTER_ADDR": ""}, r"MASTER_ADDR is not set, and torchrun sets none"),
        (TORCHRUN | {"MASTER_PORT": ""}, r"MASTER_PORT is not set, and torchrun sets none"),
        (TORCHRUN | {"MASTER_PORT": "http"}, r"MASTER_PORT is 'http'; expected a port, 1 to"),
        (TORCHRUN | {"MASTER_PORT": "70000"}, r"MASTER_PORT is '70000'; expected a port"),
        (TORCHRUN | {"MASTER_PORT": "65535"}, r"MASTER_PORT is 65535, torchrun's own"),
        (FASTDIST | {"FASTDIST_STORE_HOSTED": "maybe"}, r"HOSTED is 'maybe'; expected 1 or 0"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, r"mpirun: -x MASTER_ADDR="),
        (
            {"PMI_RANK": "0", "PMI_SIZE": "2"},
            r"MASTER_ADDR and MASTER_PORT are not set, .*-genv MASTER_ADDR ... -genv MASTER_PORT",
        ),
        (
            {"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2"},
            r"Kubernetes sets none; .*the pod of index 0.*`fastdist manifest jobset` prints",
        ),
        (
            SLURM | {"RANK": "0"},
            r"WORLD_SIZE is not set.* RANK is set, .*of Slurm \(SLURM_PROCID, SLURM_NTASKS\) are",
        ),
        (
            SLURM | {"RANK": "0", "WORLD_SIZE": "2"},
            r"MASTER_ADDR and MASTER_PORT are not set, .*so the variables of Slurm .* unset RANK",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            r'or give all workers the same init_method="tcp://HOST:PORT" in their options',
        ),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "h"}, r"MASTER_PORT is not set"),
        ({"RANK": "0", "WORLD_SIZE": "1", "FASTDIST_STORE_HOSTED": "1"}, r"cannot find the store"),
        (SLURM | {"SLURM_JOB_NODELIST": "[1-2"}, r"SLURM_JOB_NODELIST is .*a list of hosts"),
    ],
)
def test_what_is_missing_or_makes_no_sense_is_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(RendezvousError, match=says):
        from_env(environment)


def test_the_workers_of_a_machine_are_counted_by_its_launcher() -> None:
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        assert num_workers_here({name: "96"}) == 96
    assert num_workers_here({}) == num_workers_here({"LOCAL_WORLD_SIZE": "many"}) == 1


def test_torch_users_catch_value_error() -> None:
    with pytest.raises(ValueError, match="RANK"):
        from_env({})


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Remove launcher variables from the environment of the test process."""
    for name in os.environ:
        if name.startswith("FASTDIST_") and name != "FASTDIST_CACHE_DIR":
            monkeypatch.delenv(name)
        if name in TORCHRUN or name.startswith(("SLURM_", "OMPI_", "PMI")):
            monkeypatch.delenv(name)
    return monkeypatch


def test_worker_that_is_alone_hosts_its_store_at_a_free_port(
    no_launcher: pytest.MonkeyPatch,
) -> None:
    with rendezvous("env://", 0, 1, timeout=5.0).store as store:
        other = rendezvous("env://", 0, 1, timeout=5.0)  # as if another notebook did the same
        store.set("key", "value")
        assert not other.store.check(["key"])
        other.store.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def meet_and_close(meetings: list[Rendezvous]) -> None:
    """Set a key in every store and read all keys from each; close the stores, the host's last."""
    for store, rank, _ in meetings:
        store.set(f"from {rank}", str(rank))
    keys = [f"from {rank}" for _, rank, _ in meetings]
    for store, _, _ in meetings:
        assert store.multi_get(keys) == [b"%d" % rank for rank in range(len(meetings))]
    for store, _, _ in sorted(meetings, key=lambda meeting: -meeting.rank):
        store.close()


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize("in_the_url", [True, False])
def test_workers_meet_over_tcp(pool: ThreadPoolExecutor, port: int, in_the_url: bool) -> None:
    url = f"tcp://127.0.0.1:{port}"
    jobs = [
        pool.submit(rendezvous, f"{url}?rank={rank}&world_size=3", timeout=10)
        if in_the_url
        else pool.submit(rendezvous, url, rank, 3, 10)
        for rank in range(3)
    ]
    meetings = [job.result(15) for job in jobs]
    assert [meeting[1:] for meeting in meetings] == [(0, 3), (1, 3), (2, 3)]
    meet_and_close(meetings)


@pytest.mark.usefixtures("no_launcher")
def test_workers_meet_in_a_file_and_leave_none(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a%20store"
    meetings = [rendezvous(url, rank, 2, 10) for rank in range(2)]
    assert (tmp_path / "a store").exists()
    meet_and_close(meetings)
    assert not (tmp_path / "a store").exists()


def test_workers_meet_by_environment(
    no_launcher: pytest.MonkeyPatch, pool: ThreadPoolExecutor, port: int
) -> None:
    no_launcher.setenv("MASTER_ADDR", "127.0.0.1")
    no_launcher.setenv("MASTER_PORT", str(port))
    jobs = [
        pool.submit(rendezvous, f"env://?rank={rank}&world_size=2", timeout=10) for rank in range(2)
    ]
    meet_and_close([job.result(15) for job in jobs])


def test_no_rank_binds_the_port_of_a_store_that_the_launcher_hosts(
    no_launcher: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    hosted, port = host_store(timeout=10)
    no_launcher.setenv("MASTER_ADDR", "127.0.0.1")
    no_launcher.setenv("MASTER_PORT", str(port))
    no_launcher.setenv("FASTDIST_STORE_HOSTED", "1")
    for url in ("env://", f"tcp://127.0.0.1:{port}"):
        jobs = [pool.submit(rendezvous, url, rank, 2, 10) for rank in range(2)]
        meet_and_close([job.result(15) for job in jobs])
    assert hosted.num_keys() == 4
    hosted.close()


def test_rank_0_hosts_a_store_at_another_port_than_the_launchers(
    no_launcher: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    """Some workers may use a separate process group in addition to RPC with all workers."""
    launchers, port = host_store(timeout=10)
    no_launcher.setenv("MASTER_ADDR", "127.0.0.1")
    no_launcher.setenv("MASTER_PORT", str(port))
    no_launcher.setenv("FASTDIST_STORE_HOSTED", "1")
    kept = KeptPort()
    url = f"tcp://127.0.0.1:{kept.number}"
    jobs = [pool.submit(rendezvous, url, rank, 2, 10) for rank in range(2)]
    meet_and_close([job.result(15) for job in jobs])
    kept.close()
    assert launchers.num_keys() == 0
    launchers.close()


def test_each_round_of_an_elastic_job_finds_an_empty_store(
    no_launcher: pytest.MonkeyPatch,
) -> None:
    hosted, port = host_store(timeout=10)
    for name, value in (TORCHRUN | {"RANK": "0", "FASTDIST_STORE_HOSTED": "1"}).items():
        no_launcher.setenv(name, value)
    no_launcher.setenv("MASTER_ADDR", "127.0.0.1")
    no_launcher.setenv("FASTDIST_STORE_PORT", str(port))
    for restart in "012":
        no_launcher.setenv("TORCHELASTIC_RESTART_COUNT", restart)
        with rendezvous("env://", timeout=10).store as store:
            assert store.compare_set("address of rank 0", "", restart) == restart.encode()
    hosted.close()


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("http://127.0.0.1:80", 0, 1), r"url is 'http://.*known: env://, tcp://HOST:PORT, file:"),
        (("tcp://127.0.0.1", 0, 1), r"expected tcp://HOST:PORT"),
        (("tcp://:4410", 0, 1), r"expected tcp://HOST:PORT"),
        (("tcp://127.0.0.1:99999", 0, 1), r"expected tcp://HOST:PORT"),
        (("tcp://127.0.0.1:4410",), r"using tcp:// rendezvous: rank parameter missing"),
        (("tcp://127.0.0.1:4410", 2, 2), r"rank is 2; expected 0 to 1 in a world of 2"),
        (("tcp://127.0.0.1:4410", -2, 2), r"rank is -2; expected a number, 0 or more"),
        (("tcp://127.0.0.1:4410?rank=x", -1, 2), r"rank is 'x'; expected a number"),
        (("tcp://127.0.0.1:4410?rnk=0", -1, 2), r"unknown 'rnk'; known: rank, world_size"),
        (("tcp://127.0.0.1:4410?rank=0", 1, 2), r"rank is 1 as an argument and 0 in .*give it"),
        (("file://relative/path", 0, 1), r"expected file:///PATH, with three slashes"),
        (("env://",), r"the rank of this worker is not known"),
    ],
)
def test_a_wrong_url_or_rank_is_named(arguments: tuple[str, int, int], says: str) -> None:
    with pytest.raises(RendezvousError, match=says):
        rendezvous(*arguments)


@pytest.mark.usefixtures("no_launcher")
def test_a_worker_alone_is_told_who_is_missing_and_where(port: int) -> None:
    with pytest.raises(StoreTimeoutError, match="is rank 0 running"):
        rendezvous(f"tcp://127.0.0.1:{port}", 1, 2, 0.1)


@pytest.mark.usefixtures("no_launcher")
def test_a_worker_with_the_wrong_secret_does_not_meet_the_others(port: int) -> None:
    url = f"tcp://127.0.0.1:{port}"
    host = rendezvous(url, 0, 2, 10, secret=JobSecret.generate())
    with host.store, pytest.raises(AuthenticationError):
        rendezvous(url, 1, 2, 10, secret=JobSecret.generate())


@pytest.mark.usefixtures("no_launcher")
def test_two_workers_with_rank_0_are_told(port: int) -> None:
    url = f"tcp://127.0.0.1:{port}"
    with rendezvous(url, 0, 2, 10).store, pytest.raises(StoreError, match="is taken"):
        rendezvous(url, 0, 2, 10)


@pytest.mark.usefixtures("no_launcher")
def test_a_worker_publishes_the_address_by_which_it_reaches_the_store() -> None:
    store, _ = host_store("127.0.0.2")
    with PrefixStore("x", store) as prefixed:
        assert worker_address(prefixed) == "127.0.0.1"
        assert worker_address(prefixed, {"FASTDIST_ADDRESS": "10.1.2.3"}) == "10.1.2.3"


@pytest.mark.usefixtures("no_launcher")
def test_a_worker_without_a_served_store_stays_on_loopback(tmp_path: Path) -> None:
    with FileStore(str(tmp_path / "store")) as store:
        assert worker_address(store) == "127.0.0.1"


@pytest.mark.usefixtures("no_launcher")
def test_a_workers_security_follows_from_the_stores_secret() -> None:
    plain, _ = host_store(security="none")
    with plain, HashStore() as hashed, PrefixStore("x", host_store()[0]) as served:
        assert isinstance(worker_security(plain, 0, 2), NoSecurity)
        for store in (hashed, served):
            security = worker_security(store, 1, 2)
            assert isinstance(security, CurveSecurity)
            assert security.member == "rank:1"


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize("every", ["*", "0.0.0.0", "::", "[::]"])
def test_a_worker_does_not_listen_on_all_addresses(every: str) -> None:
    with HashStore() as store:
        with pytest.raises(RendezvousError, match=r"^FASTDIST_ADDRESS is .* every address of this"):
            worker_address(store, {"FASTDIST_ADDRESS": every})
        with pytest.raises(RendezvousError, match=r"^local_address is .* every address of this"):
            worker_address(store, {}, given=every)


@pytest.mark.usefixtures("no_launcher")
def test_with_certificates_a_workers_security_is_its_rank_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_certificates(tmp_path / "certificates", 2)
    with HashStore() as store:
        security = worker_security(store, 1, 2, security="certs", certificates=folder)
        assert repr(security) == f"CertificateSecurity('rank:1', CertificateFolder({folder!r}))"
        monkeypatch.setenv("FASTDIST_SECURITY", "certs")
        monkeypatch.setenv("FASTDIST_CERTIFICATES", folder)
        assert worker_security(store, 0, 2).kind == "certs"
        assert worker_security(store, 0, 2, security="none").kind == "none"


@pytest.mark.usefixtures("no_launcher")
def test_with_certificates_ranks_meet_at_the_store(tmp_path: Path, port: int) -> None:
    folder = make_certificates(tmp_path / "certificates", 2)
    url = f"tcp://127.0.0.1:{port}"
    host = rendezvous(url, 0, 2, 10, security="certs", certificates=folder)
    with host.store:
        with rendezvous(url, 1, 2, 10, security="certs", certificates=folder).store as other:
            other.set("key", "value")
        with pytest.raises(AuthenticationError):
            rendezvous(url, 1, 2, 10, secret=JobSecret.generate())


def test_torch_distributed_names_are_found_where_torch_has_them() -> None:
    import fastdist.distributed

    assert fastdist.distributed.TCPStore is TCPStore and fastdist.distributed.Store is Store
    assert "rendezvous" in dir(fastdist.distributed)
    with pytest.raises(AttributeError, match=r"has no attribute 'Sotre'; nearest in .*: Store"):
        _ = fastdist.distributed.Sotre


def test_programs_for_pytorch_call_the_module_and_take_the_next_meeting(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store?rank=0&world_size=1"
    store, rank, world_size = next(dist.rendezvous(url))
    store.set("k", "v")
    assert (store.get("k"), rank, world_size) == (b"v", 0, 1)
    store.close()
    with pytest.raises(RuntimeError, match=r"^No rendezvous handler for other://"):
        dist.rendezvous("other://host")
    with pytest.raises(ValueError, match="path missing"):
        rendezvous("file://?rank=0&world_size=1")
    with pytest.raises(ValueError, match="port number missing"):
        rendezvous("tcp://127.0.0.1?rank=0&world_size=1")


def test_a_program_registers_how_urls_of_a_scheme_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_module, "_handlers", {})
    store = HashStore()
    register_rendezvous_handler("mine", lambda url, timeout: iter([(store, len(url), 9)]))
    assert rendezvous("mine://a") == (store, 8, 9)
    for taken in ("mine", "tcp"):
        with pytest.raises(RuntimeError, match=f"handler for {taken}:// already registered"):
            register_rendezvous_handler(taken, lambda url, timeout: iter([]))
