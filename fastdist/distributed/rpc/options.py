"""The agent's options: PyTorch's fields, and fastdist's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from fastdist.core.device import Device
from fastdist.distributed.arena.layout import why_not_viable
from fastdist.distributed.pipe.registry import NotViable, Registered, Registry, names_of, transports
from fastdist.distributed.restarts import may_workers_return
from fastdist.distributed.sockets import liveness_timeouts
from fastdist.distributed.store.environment import init_timeout_s

from . import constants
from .message.limits import DEFAULT, Limits
from .torch_names.argument_errors import INCOMPATIBLE, LONGEST_S, constructor, incompatible, seconds

# fastdist has four channels:
# - `basic` puts a buffer into the message: into its first frame if the buffer is small, else into a
#   separate frame.
# - `arena` uses memory that processes of one machine share (distributed/arena), for tensors that
#   fit; all other tensors use `basic`.
# - `cuda_basic` copies a GPU's tensors to and from locked memory of the CPU (devices/staging.py),
#   and then uses `basic` or `arena`. Workers without a GPU have this channel, too.
# - `cuda_ipc` copies from GPU to GPU between two processes of one machine (gpu_transport/). It
#   needs the arena.
# The option `_channels` only decides whether arena and cuda_ipc are used. The other names below are
# PyTorch's. Each is registered with the reason why it does not exist here; a user who selects only
# such channels gets an error with this reason.
ARENA: Final = "arena"
CUDA_IPC: Final = "cuda_ipc"
_THROUGH_HOST: Final = (
    "not part of this version; tensors of GPUs go through locked memory of the CPU, by cuda_basic"
)


class Channel:
    """A channel of this version. `why_not_viable()` returns what this machine lacks, or None."""

    def __init__(self, why_not_viable: Callable[[], str | None]) -> None:
        self.why_not_viable = why_not_viable


channels: Registry[Registered] = Registry("channel")
channels.register(ARENA, 1300, Channel(why_not_viable))
channels.register("cma", 1200, NotViable("process_vm_readv is not part of this version"))
channels.register("mpt_uv", 1100, NotViable("striping over TCP is not part of this version"))
channels.register("basic", 1000, Channel(lambda: None))
channels.register("cuda_xth", 400, NotViable(_THROUGH_HOST))
channels.register(CUDA_IPC, 300, Channel(why_not_viable))
channels.register("cuda_gdr", 200, NotViable(_THROUGH_HOST))
channels.register("cuda_basic", 0, Channel(lambda: None))


DeviceLike: TypeAlias = int | str | Device
DeviceMap: TypeAlias = dict[Device, Device]


class RpcBackendOptions:
    """The options of every backend: how long a call may take, and how workers find each other.

    Units   rpc_timeout in seconds; 0 removes the limit of calls
    Raises  TypeError for a timeout that is not a number, or a method that is not a string

    Args:
        rpc_timeout: The default time limit of a call in seconds.
        init_method: Where workers meet: env://, tcp://HOST:PORT or file:///PATH.
    """

    init_timeout: float | None = None
    security: str | None = None
    certificates: str | None = None

    @constructor(
        "fastdist.distributed.rpc.RpcBackendOptions(rpc_timeout: float = 60.0, "
        "init_method: str = 'env://')"
    )
    def __init__(
        self,
        *,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
    ) -> None:
        self.init_method = init_method
        self.rpc_timeout = rpc_timeout

    @property
    def rpc_timeout(self) -> float:
        """The default timeout of calls, in seconds."""
        return self._rpc_timeout

    @rpc_timeout.setter
    def rpc_timeout(self, timeout: float) -> None:
        self._rpc_timeout = seconds("rpc_timeout", timeout)

    @property
    def init_method(self) -> str:
        """The URL of the rendezvous."""
        return self._init_method

    @init_method.setter
    def init_method(self, url: str) -> None:
        if not isinstance(url, str):
            raise TypeError(
                f"{INCOMPATIBLE}init_method is {url!r}; expected env://, tcp://HOST:PORT or "
                "file:///PATH"
            )
        self._init_method = url

    def meeting_s(self) -> float:
        """Return the time limit of init_rpc, which does not depend on rpc_timeout.

        Units   seconds: init_timeout if it was given, else FASTDIST_INIT_TIMEOUT, else 60
        """
        chosen = self.init_timeout
        if chosen is None:
            variable = init_timeout_s()
            chosen = constants.INIT_TIMEOUT_S if variable is None else variable
        return chosen or LONGEST_S


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of the TENSORPIPE backend, which uses ZeroMQ here.

    The options that torch does not have: `security` is None (CURVE with the job's secret), "certs"
    (CURVE with a key pair for each rank, from the folder `certificates`), or "none" for plain text.
    With `strict`, other workers may run only exported functions. `init_timeout` limits init_rpc,
    independent of rpc_timeout (None: FASTDIST_INIT_TIMEOUT, else 60 s; 0: no limit). `limits` is an
    rpc.Limits. `max_outstanding_bytes` replaces its limit on the calls under way to one peer.
    `switch_interval` is passed to sys.setswitchinterval while RPC is up; None leaves it unchanged.
    `local_address` is the address on which this worker listens (else FASTDIST_ADDRESS, else the
    address by which it reaches the store).

    `frozen_s` is how long a worker may give no sign of life before it is lost, because the process
    is frozen or its network is down. The default is FASTDIST_FROZEN_S, which launchers of several
    nodes use as well, else 10 s. If there are more than 4 workers per core, the 10 s become longer
    (80 s for 64 workers on 2 cores). Time in which this worker itself was stopped does not count.
    `grace_s` is how long a worker's address may refuse connections, because no process listens on
    it, before the worker is lost. The default is FASTDIST_GRACE_S, else 1 s within a machine and
    frozen_s between machines. If the kernel reports the end of the process, there is no wait.

    With `restarts`, a lost worker of a group of a fixed size may be restarted with its rank and
    name, and joins again. Without `restarts` the group continues with one worker less. If None,
    FASTDIST_ALLOW_RESTART decides; `fastdist run --restart=worker` sets it to "worker". All workers
    must pass the same value.

    Raises  RuntimeError for a thread count below 1, or an unknown transport or channel; ValueError
            for invalid devices, a device map that is not one to one, or a negative time; TypeError
            for a value of a wrong type

    Args:
        num_worker_threads: How many threads run the calls of other workers.
        rpc_timeout: Seconds that a call may take; 0 for no limit.
        init_method: The rendezvous: "env://", "tcp://HOST:PORT" or "file:///PATH".
        device_maps: For each worker, a dict from a device here to a device there; none if None.
        devices: The devices that this worker uses; all devices in `device_maps` if None.
        security: None for CURVE with the job's secret, "certs" for a key pair for each rank, "none"
            for no encryption.
        certificates: The folder with key pairs, for "certs"; FASTDIST_CERTIFICATES if None.
        strict: Whether other workers may run only exported functions.
        init_timeout: Seconds that init_rpc may take; FASTDIST_INIT_TIMEOUT or 60 if None, 0 for no
            limit.
        max_outstanding_bytes: The most bytes of calls under way to one peer; as in limits if None.
        limits: An `rpc.Limits`; None: its defaults.
        switch_interval: The value for `sys.setswitchinterval` while RPC runs, in seconds; None
            leaves it unchanged.
        local_address: The address on which this worker listens; FASTDIST_ADDRESS, else the one by
            which the worker reaches the store, if None.
        frozen_s: Seconds without a sign of life after which a worker is lost; FASTDIST_FROZEN_S,
            else 10, if None.
        grace_s: Seconds for which an address may refuse connections; FASTDIST_GRACE_S, else 1, and
            frozen_s between machines, if None.
        restarts: Whether a lost worker may come back; None takes FASTDIST_ALLOW_RESTART.
        _transports: Names of transports to use; all if None.
        _channels: Names of channels to use; all if None.

    Example:
        >>> options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=5)
        >>> options.num_worker_threads, options.rpc_timeout
        (4, 5.0)
    """

    @constructor(
        "fastdist.distributed.rpc.TensorPipeRpcBackendOptions(num_worker_threads: int = 16, "
        "rpc_timeout: float = 60.0, init_method: str = 'env://', device_maps: dict | None = None, "
        "devices: list | None = None, _transports: list[str] | None = None, "
        "_channels: list[str] | None = None, ...)"
    )
    def __init__(
        self,
        *,
        num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
        device_maps: Mapping[str, Mapping[DeviceLike, DeviceLike]] | None = None,
        devices: Sequence[DeviceLike] | None = None,
        security: str | None = None,
        certificates: str | None = None,
        strict: bool = False,
        init_timeout: float | None = None,
        max_outstanding_bytes: int | None = None,
        limits: Limits | None = None,
        switch_interval: float | None = constants.SWITCH_INTERVAL_S,
        local_address: str | None = None,
        frozen_s: float | None = None,
        grace_s: float | None = None,
        restarts: bool | None = None,
        _transports: Sequence[str] | None = None,
        _channels: Sequence[str] | None = None,
    ) -> None:
        super().__init__(rpc_timeout=rpc_timeout, init_method=init_method)
        if isinstance(num_worker_threads, bool) or not isinstance(num_worker_threads, int):
            raise TypeError(f"num_worker_threads must be a number, got {num_worker_threads!r}")
        if num_worker_threads <= 0:
            raise RuntimeError(f"num_worker_threads must be positive, got {num_worker_threads}")
        if security not in (None, "curve", "certs", "none"):
            raise ValueError(f"security is {security!r}; expected None, 'curve', 'certs' or 'none'")
        self.num_worker_threads = num_worker_threads
        _require_kinds(device_maps, devices, _transports, _channels)
        self.device_maps = {name: _to_device_map(m) for name, m in (device_maps or {}).items()}
        self.devices = _to_device_list(devices or ())
        self.security = security
        self.certificates = certificates
        self.strict = strict
        if init_timeout is None:
            variable = init_timeout_s()
            init_timeout = constants.INIT_TIMEOUT_S if variable is None else variable
        self.init_timeout = seconds("init_timeout", init_timeout)
        self.limits = _limits(limits, max_outstanding_bytes)
        self.max_outstanding_bytes = self.limits.outstanding_bytes
        self.switch_interval = switch_interval
        if not isinstance(local_address, str | None):
            raise TypeError(f"local_address is {local_address!r}; expected text such as '10.0.0.7'")
        self.local_address = local_address
        self.frozen_s = liveness_timeouts.frozen_s(frozen_s)
        self.grace_s = liveness_timeouts.grace_s(grace_s)
        self._is_frozen_s_default = not liveness_timeouts.is_chosen(frozen_s)
        self.restarts = _restarts(restarts)
        if _transports is None:
            _transports = names_of("FASTDIST_TRANSPORTS")
        if _transports is not None:
            transports.require_known(_transports)
        if _channels is None:
            _channels = names_of("FASTDIST_CHANNELS")
        if _channels is not None:
            channels.require_known(_channels)
        self._transports = _transports
        self._channels = _channels

    def set_device_map(self, to: str, device_map: Mapping[DeviceLike, DeviceLike]) -> None:
        """Add entries to the map from this worker's devices to the devices of worker `to`.

        Raises  ValueError if the map would have two entries for a device, or map two devices to
                one; TypeError if `to` is not a name

        Args:
            to: The name of the worker that is called.
            device_map: A dict from this worker's devices to the devices of worker `to`.
        """
        if not isinstance(to, str):
            why = f"expected a worker's name, got {type(to).__name__}"
            signature = "(to: str, device_map: dict[Device, Device]) -> None"
            raise incompatible("set_device_map", signature, why, to, device_map)
        added = _to_device_map(device_map)
        known = self.device_maps.get(to, {})
        for mine, theirs in added.items():
            if known.get(mine, theirs) != theirs:
                raise ValueError(
                    "`set_device_map` only supports 1-to-1 mapping, trying to map "
                    f"{mine} to {theirs} and {known[mine]}"
                )
        self._set_device_map(to, added)

    @property
    def is_frozen_s_chosen(self) -> bool:
        """Whether a user chose frozen_s. If so, many workers per core do not make it longer."""
        return not self._is_frozen_s_default or self.frozen_s != liveness_timeouts.FROZEN_S

    def device_maps_as_text(self) -> dict[str, dict[str, str]]:
        """Return the device maps as text, to be sent to other workers."""
        return {
            name: {str(mine): str(theirs) for mine, theirs in device_map.items()}
            for name, device_map in self.device_maps.items()
        }

    def set_devices(self, devices: Sequence[DeviceLike]) -> None:
        """Set the local devices whose streams the agent manages.

        Args:
            devices: The local devices whose streams the agent manages.
        """
        self.devices = _to_device_list(devices)

    def _set_device_map(self, to: str, device_map: Mapping[Device, Device]) -> None:
        """Add the entries of `device_map` to the map of worker `to`; they replace old entries."""
        merged = {**self.device_maps.get(to, {}), **device_map}
        self.device_maps[to] = _to_device_map(merged)


def _restarts(chosen: object) -> bool:
    if not isinstance(chosen, bool | None):
        raise TypeError(f"restarts is {chosen!r}; expected True, False or None")
    return may_workers_return() if chosen is None else chosen


def _limits(limits: Limits | None, max_outstanding_bytes: int | None) -> Limits:
    if not isinstance(limits, Limits | None):
        raise TypeError(f"limits is a {type(limits).__name__}; expected an rpc.Limits")
    chosen = limits or DEFAULT
    bound = max_outstanding_bytes
    return chosen if bound is None else replace(chosen, outstanding_bytes=bound)


def _require_kinds(device_maps: object, devices: object, *lists_of_names: object) -> None:
    if not isinstance(device_maps, Mapping | None):
        raise TypeError(f"device_maps is {device_maps!r}; expected worker name -> device map")
    if isinstance(devices, str) or not isinstance(devices, Sequence | None):
        raise TypeError(f"devices is {devices!r}; expected a list of devices")
    for names in lists_of_names:
        if names is None:
            continue
        is_list = isinstance(names, Sequence) and not isinstance(names, str)
        if not is_list or not all(isinstance(name, str) for name in names):  # type: ignore[attr-defined]
            raise TypeError(f"{names!r} is not a list of names of transports or channels")


ZmqRpcBackendOptions = TensorPipeRpcBackendOptions


def _to_device(device: DeviceLike) -> Device:
    return Device("cuda", device) if isinstance(device, int) else Device.parse(device)


def _to_device_map(device_map: Mapping[DeviceLike, DeviceLike] | DeviceMap) -> DeviceMap:
    full: DeviceMap = {}
    reverse: DeviceMap = {}
    for mine_like, theirs_like in device_map.items():
        mine, theirs = _to_device(mine_like), _to_device(theirs_like)
        if theirs in reverse:
            raise ValueError(
                "`device_map` only supports 1-to-1 mapping, "
                f"trying to map {mine} and {reverse[theirs]} to {theirs}"
            )
        full[mine] = theirs
        reverse[theirs] = mine
    return full


def _to_device_list(devices: Sequence[DeviceLike]) -> list[Device]:
    found = [_to_device(device) for device in devices]
    for device in found:
        if device.type not in ("cuda", "sim"):
            raise ValueError(
                f"`set_devices` expect a list of CUDA devices, but got device type {device.type}."
            )
    return found
