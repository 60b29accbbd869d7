"""The store that one process serves and all others reach over TCP."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import (
    AuthenticationError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.core.folded_frames import folds
from fastdist.distributed.sockets import Doorbell, JobSecret, Security, Tell, knock, tcp_endpoint
from fastdist.distributed.sockets.published_secret import (
    publish_secret,
    read_published_secret,
    withdraw_secret,
)

from .access import (
    SecretSource,
    certified_client,
    choose_access,
    client_security,
    numeric_address,
    require_host,
    server_security,
)
from .answers import Timeout, require_ok, seconds
from .connection import Connection
from .ports import require_port, take_over
from .requests import Op
from .served_watch import ServedWatch
from .store import ASK_S, DEFAULT_TIMEOUT, Store, Watch

if TYPE_CHECKING:
    from .server import StoreServer

# How often a client checks for a secret that the owner of a loopback port has not published yet.
_SECRET_PAUSE_S = 0.02
# How often a client checks whether a process listens at the port but has not published a secret.
_LOOK_PAUSE_S = 0.3
_HANDSHAKE_S = 1.0
# The owner of a port publishes its secret within this time after the bind, even on a busy machine.
_PUBLISHED_WITHIN_S = 1.1
_CLOSE_S = 5.0
_CONNECT_S = 5.0
# The limit of one attempt to connect: a joining worker makes several attempts.
_CONNECT_TO_JOIN_S = 0.5
_WORKERS = "\0workers"

# (address, port) -> the time since when a process there listens without a published secret, or
# refuses the published one. Module level, as one long wait creates several TCPStores in turn.
_locked_since: dict[tuple[str, int], float] = {}

_logger = logging.getLogger(__name__)

# (address, port) -> the store that this process serves there.
_served: dict[tuple[str, int], TCPStore] = {}
_served_lock = threading.Lock()


class TCPStore(Store):
    """torch's TCPStore: a master (`is_master`) serves a dictionary at `host_name`; others connect.

    Each waiting call uses a separate connection, so that no call blocks another. With `world_size`,
    the constructor of the master waits until that many stores have connected, unless
    `wait_for_workers` is false. With `multi_tenant`, a master uses a store that this process
    already serves at the address. `master_listen_fd` is the descriptor of a socket that listens at
    the port; a master closes this socket and binds the port.

    A master reports refused connections to `tell`, by default to the log: one line for each host
    and reason. With `goes_on`, a master uses the secret that a killed master at the port published.
    `security` is "curve", "none", "certs" (which needs a folder of `certificates` and the `rank` of
    this worker), or None for the value of FASTDIST_SECURITY. `use_libuv` is ignored.

    Raises  AuthenticationError within 2 s for a wrong secret, within 3 s for a missing one;
            StoreTimeoutError if no store answers within timeout; StoreError if the port is taken
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Timeout = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
        *,
        security: str | None = None,
        secret: JobSecret | None = None,
        certificates: str | None = None,
        rank: int | None = None,
        tell: Tell | None = None,
        goes_on: bool = False,
    ) -> None:
        super().__init__(timeout)
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        # Accepted for compatibility and ignored: ZeroMQ carries the requests.
        self.libuvBackend = use_libuv
        require_port(port, is_master)
        self.host = require_host(host_name)
        # A name that cannot be resolved yet is passed to libzmq, which resolves it at each attempt.
        self._address = numeric_address(self.host) or self.host
        access = choose_access(self._address, security, secret, certificates)
        self._source, self._secret, self._folder = access
        # The rank whose certificate this store presents, if there are certificates.
        self._rank = rank
        self._server: StoreServer | None = None
        # A master calls this with a log level and a line for each refused connection.
        self._tell = tell or _logger.log
        # The descriptor of the file in which this store has published its own secret.
        self._published: int | None = None
        self._prepare()
        self.port = port
        try:
            if is_master and not (multi_tenant and self._share(port)):
                if master_listen_fd is not None:
                    port = take_over(master_listen_fd, port)
                self._begin_service(port, world_size, goes_on=goes_on)
            self._endpoint = (
                self._server.local_endpoint
                if self._server is not None
                else tcp_endpoint(self._address, port)
            )
            self._return_connection(self._borrow_connection(time.monotonic() + seconds(timeout)))
            if world_size and wait_for_workers and self._shares is None:
                self._wait_for_workers(world_size, is_master=is_master)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._bell = Doorbell()
        # Guards the four attributes below; close() waits on it until no connection is lent.
        self._connections_lock = threading.Condition()
        self._idle: list[Connection] = []
        self._lent = 0
        self._watches: set[ServedWatch] = set()
        self._is_closed = False
        # How many stores of this process share this one, and whether it closes with the last one.
        self._num_sharers, self._closes_later = 0, False
        self._shares: TCPStore | None = None  # the store that this one shares
        # Whether a connection has succeeded before: if so, do not wait for a store that is gone.
        self._was_reached = False

    def _begin_service(self, port: int, world_size: int | None, *, goes_on: bool) -> None:
        if goes_on and self._source is SecretSource.PUBLISHED:
            self._secret = read_published_secret(self._address, port)
        self._host_store(port, world_size)

    def _share(self, port: int) -> bool:
        """Share the store that this process serves at the address, if there is one."""
        with _served_lock:
            served = _served.get((self._address, port)) if port else None
            if served is None or served._is_forked():
                return False
            served._num_sharers += 1
        self._shares, self._secret = served, served._secret
        return True

    def _wait_for_workers(self, world_size: int, *, is_master: bool) -> None:
        try:
            # Other stores join only to be counted; as in PyTorch, only the master waits.
            self.join(_WORKERS, -1, b"", world_size, None if is_master else 0.0)
        except StoreTimeoutError as late:
            if not is_master and late.missing:
                return
            came = world_size - len(late.missing) if late.missing else 1
            raise StoreTimeoutError(
                f"Timed out after {self._seconds(None):.0f} seconds waiting for clients. "
                f"{came}/{world_size} clients joined. {late}",
                late.missing,
            ) from late

    @property
    def job_secret(self) -> JobSecret | None:
        """The job secret of this store; None if security is 'none'."""
        return self._secret

    def tell_ended(self, rank: int, world_size: int) -> None:
        """Report that a worker has ended: no join of `world_size` members waits for it any more."""
        self._ask(Op.ENDED, [b"%d" % rank, b"%d" % world_size])

    def clone(self) -> TCPStore:
        """Return another client of the same store, with its own timeout and its own close()."""
        options: dict[str, Any] = {"rank": self._rank}
        if self._folder is not None:
            options["certificates"] = self._folder
        elif self._source is not SecretSource.PUBLISHED:
            options.update({"secret": self._secret} if self._secret else {"security": "none"})
        shared = share_served(self.host, self.port, self.timeout, **options)
        return shared or TCPStore(self.host, self.port, timeout=self.timeout, **options)

    def begin_round(self) -> None:
        """Let ranks whose processes have ended join again: the job restarts its workers."""
        self._ask(Op.ROUND, [])

    def query_host(self, line: str = "") -> list[str]:
        """Make the host log `line`, if given; return the host and its refused connections."""
        lines = [line.encode()] if line else []
        return [frame.decode(errors="replace") for frame in self._ask(Op.QUERY_HOST, lines, ASK_S)]

    def watch(self, prefix: str) -> Watch:
        """Return a watch on all keys that begin with prefix; close it after use."""
        waited_s = self._seconds(None)
        connection = self._borrow_connection(time.monotonic() + waited_s)
        try:
            reply = connection.ask(Op.WATCH, [prefix.encode()], waited_s)
            require_ok(repr(self), Op.WATCH, [], reply.status, reply.frames, waited_s)
        except BaseException:
            self._drop(connection)
            raise
        watch = ServedWatch(self, connection)
        with self._connections_lock:
            if not self._is_closed:
                self._watches.add(watch)
                return watch
        watch.close()
        raise StoreError(f"{self!r} is closed")

    def host_instead(self) -> bool:
        """Serve an empty store here, in place of a host that is gone; False if this is the host.

        Raises  StoreError if the port cannot be bound: another process hosts the store, or the
                address is another machine's; AuthenticationError without the store's secret key
        """
        with self._connections_lock:
            if self._is_closed:
                raise StoreError(f"{self!r} is closed")
            if self._server is not None:
                return False
        self._host_store(self.port, None)
        assert self._server is not None
        self._endpoint = self._server.local_endpoint
        with self._connections_lock:
            is_closed = self._is_closed
        if is_closed:
            self._end_service()
        return True

    def close(self) -> None:
        """Close the store; waiting calls of other threads raise StoreError. Repeats do nothing.

        Note    if this process serves the store, the store ends for all clients
        """
        with _served_lock:
            if self._num_sharers:
                self._closes_later = True
                return
        self._close_now()

    def _close_now(self) -> None:
        if self._is_forked():
            return  # a forked child inherits the exit hook, but not the threads and sockets
        with self._connections_lock:
            if self._is_closed:
                return
            self._is_closed = True
            idle, self._idle = self._idle, []
            watches = list(self._watches)
            self._bell.ring()
        for watch in watches:
            watch.close()
        for connection in idle:
            connection.close()
        try:
            with self._connections_lock:
                # Each waiting thread closes its own connection, as a socket belongs to one thread.
                if not self._connections_lock.wait_for(lambda: self._lent == 0, _CLOSE_S):
                    raise StoreError(f"{self!r}: {self._lent} calls did not end")
            self._bell.close()
        finally:
            self._end_service()
            shared, self._shares = self._shares, None
            if shared is not None:
                shared._end_sharing()

    def _end_sharing(self) -> None:
        with _served_lock:
            self._num_sharers -= 1
            closes = self._closes_later and not self._num_sharers
        if closes:
            self._close_now()

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"

    def _host_store(self, port: int, world_size: int | None) -> None:
        if self._source is SecretSource.PUBLISHED and self._secret is None:
            self._secret = JobSecret.generate()
        security = server_security(self._secret, self._folder)
        # The host's world size counts: a client with another size is wrong even if it joins first.
        groups = {_WORKERS.encode(): world_size} if world_size else {}
        from .server import StoreServer  # on demand: only hosts need it

        self._server = StoreServer(self._address, port, security, self._tell, groups)
        self.port = self._server.port
        with _served_lock:
            _served[self._address, self.port] = self
        atexit.register(self._close_now)
        if self._source is SecretSource.PUBLISHED and self._secret is not None:
            # Publish after the bind: only the owner of the port may publish a secret for it.
            self._published = publish_secret(self._address, self.port, self._secret)

    def _end_service(self) -> None:
        with self._connections_lock:
            server, self._server = self._server, None
            published, self._published = self._published, None
        if server is None:
            return
        with _served_lock:
            if _served.get((self._address, self.port)) is self:
                del _served[self._address, self.port]
        atexit.unregister(self._close_now)
        try:
            if published is not None:
                withdraw_secret(self._address, self.port, published)
        finally:
            server.close()

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        waited_s, patience_s = self._seconds(timeout), self._seconds(None)
        if timeout is not None:
            # Connecting takes time even for a request with a short timeout.
            least_s = _CONNECT_TO_JOIN_S if op in (Op.JOIN, Op.QUERY_HOST) else _CONNECT_S
            patience_s = min(patience_s, max(waited_s, least_s))
        began = time.monotonic()
        connection = self._borrow_connection(began + patience_s, is_joining=op is Op.JOIN)
        try:
            # The time for connecting is part of the wait.
            left_s = max(0.0, began + waited_s - time.monotonic())
            reply = connection.ask(op, arguments, left_s)
        except BaseException:
            # This request's answer may still arrive, so no other request may use the connection.
            self._drop(connection)
            raise
        self._return_connection(connection)
        return require_ok(repr(self), op, arguments, reply.status, reply.frames, waited_s)

    def _borrow_connection(self, deadline: float, *, is_joining: bool = False) -> Connection:
        self._require_own_process()
        with self._connections_lock:
            if self._is_closed:
                raise StoreError(f"{self!r} is closed")
            self._lent += 1
            idle = self._idle.pop() if self._idle else None
        is_broken = idle is not None
        try:
            while idle is not None:
                if idle.is_whole():
                    return idle
                # The connection broke while no request used it.
                idle.close()
                with self._connections_lock:
                    idle = self._idle.pop() if self._idle else None
            if is_joining and is_broken:
                return self._connect_again(min(deadline, time.monotonic() + _CONNECT_S))
            return self._connect(deadline)
        except BaseException:
            self._count_back()
            raise

    def _return_connection(self, connection: Connection) -> None:
        with self._connections_lock:
            if not self._is_closed:
                self._idle.append(connection)
                self._lent -= 1
                return
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._count_back()

    def _count_back(self) -> None:
        with self._connections_lock:
            self._lent -= 1
            self._connections_lock.notify_all()

    def _end_watch(self, watch: ServedWatch, connection: Connection) -> None:
        with self._connections_lock:
            self._watches.discard(watch)
        self._drop(connection)

    def _connect_again(self, deadline: float) -> Connection:
        """Reconnect after a connection broke; do not wait for a store that is gone."""
        try:
            return self._connect(deadline)
        except StoreTimeoutError as error:
            raise StoreLostError(
                f"the connection to the store is lost, and it cannot be reached any more: {error}"
            ) from error

    def _connect(self, deadline: float) -> Connection:
        """Connect; after a failure, read a published secret again and retry."""
        while True:
            endpoint = self._endpoint
            is_own = endpoint.startswith("inproc:")  # inproc: within this process
            if self._source is SecretSource.PUBLISHED and not is_own:
                self._secret = self._wait_for_secret(deadline)
            security = None if is_own else self._client_security()
            connection = Connection(endpoint, security, self._bell)
            try:
                connection.establish(deadline)
                self._was_reached = True
                _locked_since.pop((self._address, self.port), None)
                return connection
            except AuthenticationError as error:
                connection.close()
                if self._source is not SecretSource.PUBLISHED:
                    raise
                self._require_secret_to_come(error)
                if not self._pause(deadline):
                    raise
            except BaseException:
                connection.close()
                raise

    def _client_security(self) -> Security:
        if self._folder is not None:
            return certified_client(self._folder, self._rank)
        return client_security(self._secret)

    def _wait_for_secret(self, deadline: float) -> JobSecret:
        look_at = time.monotonic() + _LOOK_PAUSE_S
        while True:
            secret = read_published_secret(self._address, self.port)
            if secret is not None:
                return secret
            if self._was_reached:
                raise StoreLostError(f"{self!r} has ended: its owner has withdrawn its secret")
            if time.monotonic() >= look_at:
                self._look_for_a_store_that_needs_a_secret(deadline)
                look_at = time.monotonic() + _LOOK_PAUSE_S
                continue
            if not self._pause(deadline):
                raise StoreTimeoutError(
                    f"no store at {self.host}:{self.port} in time: its owner left no secret for "
                    "this user; is rank 0 running here, and does it expect others (world size)? If "
                    "the job's secret was given to it, give FASTDIST_JOB_SECRET_FILE here as well"
                )

    def _look_for_a_store_that_needs_a_secret(self, deadline: float) -> None:
        """Try to connect to a process that has listened for a while without a published secret.

        The attempt uses a random secret. A store of this user publishes its secret unless a secret
        was given to it or it has security='none': then it is useless to wait for a secret.

        Raises  AuthenticationError if the process refuses the connection
        """
        until = min(deadline, time.monotonic() + _HANDSHAKE_S)
        if knock(self._endpoint, until) is not True:
            _locked_since.pop((self._address, self.port), None)
            return
        # First give the owner time to publish, as it logs a warning for each refused connection.
        if self._locked_s() < _PUBLISHED_WITHIN_S:
            return
        made_up = client_security(JobSecret.generate())
        connection = Connection(self._endpoint, made_up, self._bell)
        try:
            connection.establish(until)
        except AuthenticationError as error:
            if read_published_secret(self._address, self.port) is None:
                self._require_secret_to_come(error)
        except StoreTimeoutError:
            pass  # the listener does not answer: it may be busy, or frozen
        finally:
            connection.close()

    def _locked_s(self) -> float:
        """Return how long ago a listener without a working secret was first found at the port."""
        now = time.monotonic()
        return now - _locked_since.setdefault((self._address, self.port), now)

    def _require_secret_to_come(self, error: AuthenticationError) -> None:
        """Raise AuthenticationError if the store has refused the published secret for too long."""
        if self._locked_s() < _PUBLISHED_WITHIN_S:
            return
        del _locked_since[self._address, self.port]
        raise AuthenticationError(
            f"a store listens at {self.host}:{self.port}, and its owner left no secret for this "
            "user that opens it: if a job secret was given to rank 0, give the same to this worker "
            "(FASTDIST_JOB_SECRET_FILE or FASTDIST_JOB_SECRET); if rank 0 has security='none', so "
            "must this worker. Or another program has the port"
        ) from error

    def _pause(self, deadline: float) -> bool:
        """Wait a little for a file to change; return False once deadline has passed."""
        now = time.monotonic()
        if self._bell.wait(min(deadline, now + _SECRET_PAUSE_S)):
            raise StoreError(f"{self!r} is closed")
        return now < deadline


def share_served(host: str, port: int, timeout: Timeout, **options: Any) -> TCPStore | None:
    """Return a client of the store that this process serves at an address; None if there is none.

    The service ends when the served store and all such clients are closed, so that RPC and process
    groups can share it.
    """
    address = numeric_address(require_host(host)) or host
    with _served_lock:
        served = _served.get((address, port))
        if served is None or served._is_forked():
            return None
        served._num_sharers += 1
    try:
        store = TCPStore(host, port, timeout=timeout, **options)
    except BaseException:
        served._end_sharing()
        raise
    store._shares = served
    return store


@folds
def host_store(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    security: str | None = None,
    secret: JobSecret | None = None,
    certificates: str | None = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    tell: Tell | None = None,
) -> tuple[TCPStore, int]:
    """Serve a store at `host` from this process, as a launcher does; return it and its port.

    If `port` is 0, a free one is chosen. Closing the store ends the service. `security`, `secret`,
    `certificates`, `timeout` and `tell` are as for TCPStore.
    """
    secrets: Any = {"security": security, "secret": secret, "certificates": certificates}
    store = TCPStore(host, port, is_master=True, timeout=timeout, tell=tell, **secrets)
    return store, store.port
