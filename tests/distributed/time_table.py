"""The timeouts of workers, launchers and their threads, and the order that they must have.

`python -m tests.distributed.times` prints all timeouts and their values, the shortest first.
"""

from __future__ import annotations

from typing import NamedTuple

# By module and name: the meaning of each constant or default. Names may have a class in front.
TIMES: dict[str, dict[str, str]] = {
    "distributed.arena.fork": {"_PATIENCE_MS": "a helper that forks has answered"},
    "distributed.arena.owner": {
        "TRIM_S": "unused pages go back to the system",
        "LOST_AFTER_S": "a lent block that nobody has taken is lost",
    },
    "distributed.autograd.abort": {"_ANSWER_WITHIN_S": "a worker has aborted a pass"},
    "distributed.autograd.outbox": {"HOLD_S": "gradients for one worker gather"},
    "distributed.autograd.shard": {"TOMBSTONE_S": "late messages of a context are refused"},
    "distributed.autograd.stall": {
        "_ANSWER_WITHIN_S": "a worker has said whether it waits",
        "FIRST_POLL_S": "the root asks whether a pass stalls, for the first time",
        "_LONGEST_POLL_S": "and then at least so often",
        "LOOK_S": "whoever waits for one worker looks whether another has failed",
    },
    "distributed.explain.explanation": {"_TIMEOUT_S": "a worker has described its part"},
    "distributed.links.alarm": {
        "REPORT_S": "other machines report who is late",
        "LOOK_S": "a wait looks for a reported failure",
        "REASON_S": "the last message of a member that has gone arrives",
    },
    "distributed.links.between": {"_NOTICE_S": "a short message has left"},
    "distributed.links.bulk": {"_TOKEN_S": "a connection has shown its token"},
    "distributed.links.group": {"_READ_S": "others have read what a leaving member sent"},
    "distributed.links.hub": {
        "_READ_ON_S": "messages sent before the end of a peer have come",
        "_LINGER_S": "the last messages of a hub have left",
        "_KNOCKS_S": "an address is tried in another way",
        "_LONGEST_S": "no limit",
    },
    "distributed.links.joining": {"NOTICE_S": "it is said for whom a group waits"},
    "distributed.links.machine": {"_LOOK_S": "a sleeper looks, whatever happens"},
    "distributed.links.records": {"_SPIN_S": "a reader sleeps"},
    "distributed.monitor.answers": {"_SEND_S": "a reader has taken an answer"},
    "distributed.monitor.http_server": {
        "REQUEST_S": "a stranger has sent its request and read the answer"
    },
    "distributed.monitor.listener": {"_PAUSE_S": "connections are accepted again after an error"},
    "distributed.pipe.pipe": {"_LOOK_S": "a caller opens another lane"},
    "distributed.pipe.ring.lane": {"_LOOK_UP_MS": "a sleeper looks up and rings"},
    "distributed.pipe.ring.spin_policy": {"LOOK_NS": "a waiter sleeps"},
    "distributed.pipe.shared_lane": {"BURST_GAP_S": "a burst of messages is over"},
    "distributed.pipe.transports.zeromq": {"_DOUBT_AFTER_MS": "a waiter looks at its socket"},
    "distributed.preemption": {
        "_TURN_S": "a request to end is waited for again",
        "_ANSWER_S": "all workers have stored their step",
    },
    "distributed.process_group.arrivals": {"_ANSWER_S": "rank 0 has answered its members"},
    "distributed.process_group.device_watch": {
        "_LOOK_S": "what is under way is looked at",
        "_STORE_S": "the store is looked at",
        "_IDLE_S": "an idle thread ends",
        "_REPORTS_S": "others have reported about a collective that is late",
    },
    "distributed.process_group.device_work": {"_LOOK_S": "a program looks at its GPU"},
    "distributed.process_group.group_base": {"_DRAIN_S": "what a leaving member queued is done"},
    "distributed.process_group.mpi": {
        "_PAUSE_S": "MPI is asked again",
        "_REPORTS_S": "others have reported about a collective that is late",
    },
    "distributed.process_group.nccl": {"_CLOSE_S": "what is under way is aborted"},
    "distributed.process_group.work": {
        "_IDLE_S": "an idle thread ends",
        "_END_S": "a lane's thread has ended",
    },
    "distributed.profiler.group": {"_PATIENCE_S": "a worker has sent its events"},
    "distributed.rendezvous": {
        "_KNOCK_S": "it is looked whether anybody listens",
        "_COMES_WITHIN_S": "others host the store from now on",
    },
    "distributed.rpc.arena_offers": {"_OFFER_TIMEOUT_S": "an offer of memory is answered"},
    "distributed.rpc.calls.client": {"_RETRY_FIRST_S": "a lost message is sent again"},
    "distributed.rpc.calls.outgoing": {"ASK_EVERY_S": "a caller asks what became of its call"},
    "distributed.rpc.calls.serving": {"_REST_MS": "a server that cannot receive tries again"},
    "distributed.rpc.constants": {
        "INIT_TIMEOUT_S": "the group is complete",
        "SHUTDOWN_TIMEOUT_S": "all members have come to shutdown()",
        "SWITCH_INTERVAL_S": "the interpreter lock is handed on",
    },
    "distributed.rpc.gpu_transport.offers": {"OFFER_TIMEOUT_S": "an offer is answered"},
    "distributed.rpc.gpu_transport.release": {"RELEASE_TIMEOUT_S": "a release is answered"},
    "distributed.rpc.leaving": {
        "LEAST_S": "the least time for a stage of leaving",
        "LINGER_S": "goodbyes are read",
        "FIRST_S": "it is said for whom a shutdown waits",
        "FIRST_WITHOUT_LIMIT_S": "the same for a worker that serves",
        "DRAIN_S": "functions of others that run hold up the end of RPC",
        "DRAIN_AT_EXIT_S": "and that of the process",
    },
    "distributed.rpc.message.limits": {"Limits.handshake_s": "a handshake is over"},
    "distributed.rpc.message.message": {"Message.timeout_ms": "no limit"},
    "distributed.rpc.metrics": {"_LOOK_S": "counts are read again"},
    "distributed.rpc.notices": {
        "TOGETHER_S": "notices for one worker gather",
        "_FLUSH_S": "the last notices have left",
        "_LATE_S": "notices that still gather are late",
        "_FOR_A_MOMENT_S": "the end of a context waits no longer for late notices",
    },
    "distributed.rpc.references.context": {
        "_PASSED_ON_S": "those to whom a lost worker passed references have told their owners",
    },
    "distributed.rpc.shutdown_barrier": {
        "_ASK_WHO_S": "the leader has said for whom it waits",
        "_HOLD_UP_S": "a busy member reports again",
        "_LATE_S": "members of one timeout give up apart",
        "_HELD_UP_S": "the last report of a living member has come",
    },
    "distributed.rpc.torch_names.argument_errors": {"LONGEST_S": "no limit"},
    "distributed.rpc.workers.end_reasons": {"BEAT_S": "a worker that is waited for is asked"},
    "distributed.rpc.workers.group": {
        "TELL_S": "the store has answered where it need not",
        "LOOK_S": "the store has answered where it must",
    },
    "distributed.rpc.workers.joining": {
        "_TRY_AGAIN_S": "an earlier life is knocked at again",
        "_ANSWERS_S": "a living one has answered",
    },
    "distributed.rpc.workers.progress": {
        "_LATE_S": "a thread that wakes so late did not run",
        "_HELD_UP_S": "a thread that wakes so late was held up",
        "_SILENT_S": "peers have noticed the silence",
        "_LATELY_S": "what peers noticed has come here",
        "_SHORTER_S": "a stop looks so much shorter than it was",
        "_MEASURE_S": "the counters of the process are read again",
        "BUCKET_S": "deadlines that are one",
    },
    "distributed.rpc.workers.session": {
        "LivenessTimeouts.suspect_s": "a silent peer is suspected",
        "LivenessTimeouts.frozen_s": "a silent peer is lost",
        "LivenessTimeouts.grace_s": "a peer at whose address nobody listens is lost",
        "LivenessTimeouts.notice_s": "a connection is broken off for silence",
        "LivenessTimeouts.join_s": "a peer that never came is lost",
        "LivenessTimeouts.leave_s": "a peer that said goodbye is gone",
        "LivenessTimeouts.settle_s": "what came by other lanes is read",
        "LivenessTimeouts.look_whether_read_s": "it is looked whether all is read",
        "LivenessTimeouts.unresponsive_s": "it is said that a peer's Python does not answer",
        "Times.frozen_s": "a silent peer is lost",
    },
    "distributed.rpc.workers.store_keeper": {"_AGAIN_S": "a new host of the store is looked for"},
    "distributed.rpc.workers.stuck": {"_HOLDS_S": "a report of a stuck worker is out of date"},
    "distributed.rpc.workers.watching": {
        "_LOOK_AFTER_S": "an address is looked at beside libzmq",
        "_ANSWERS_WITHIN_S": "its host has answered",
    },
    "distributed.rpc.workers.worker": {
        "_LOOK_S": "a silent peer is looked at",
        "_LEAST_S": "the least time between two looks",
        "_NOTED_WITHIN_S": "the progress thread has noted an event",
    },
    "distributed.rpc.zmq_agent": {
        "ZmqAgent.drain_s": "functions of others that run hold up the end of RPC",
    },
    "distributed.sockets.addresses": {"_LOOK_S": "a port that is about to be free is tried"},
    "distributed.sockets.authenticator": {
        "_JOIN_S": "the thread has answered",
        "_AFTER_FAILURE_S": "connections are counted again",
    },
    "distributed.sockets.certificates": {"_STAMP_NS": "two changes have two time stamps"},
    "distributed.sockets.connections": {
        "SPEAKS_WITHIN_S": "a stranger that says nothing is cut off",
        "_YIELDS_AFTER_S": "an old connection yields to a new one of its peer",
    },
    "distributed.sockets.liveness_timeouts": {
        "FROZEN_S": "a silent peer is lost",
        "GRACE_S": "a peer at whose address nobody listens is lost",
        "LEAST_FROZEN_S": "the least that users may choose for frozen_s",
    },
    "distributed.sockets.options": {
        "HANDSHAKE_MS": "a handshake is over",
        "UNREACHABLE_MS": "a connection whose host acknowledges nothing is cut",
    },
    "distributed.sockets.pulse": {"BEAT_S": "a peer's host is asked"},
    "distributed.sockets.refusals": {
        "_LOOKED_FOR_S": "an address that was gone is no longer looked for",
        "_LOOK_PAUSE_S": "and is looked for so often",
        "_RECENT_S": "a refusal is out of date",
    },
    "distributed.sockets.waiting": {"_LONGEST_MS": "no limit"},
    "distributed.store.connection": {"_GRACE_S": "a server that is stuck is given up"},
    "distributed.store.server": {
        "_JOIN_S": "the thread has ended",
        "_FAREWELL_MS": "the last answers have left",
        "_PORT_S": "a port is free again",
    },
    "distributed.store.store": {
        "ASK_S": "a member has answered where it need not",
        "_LOOKS_S": "a waiter looks for what the caller names",
    },
    "distributed.store.tcp_store": {
        "_SECRET_PAUSE_S": "a secret is looked for again",
        "_LOOK_PAUSE_S": "and whether anybody listens",
        "_HANDSHAKE_S": "a handshake on loopback is over",
        "_PUBLISHED_WITHIN_S": "the owner of a port has left its secret",
        "_CLOSE_S": "the last requests are answered",
        "_CONNECT_S": "a connection is there",
        "_CONNECT_TO_JOIN_S": "a connection of one that asks again and again is there",
    },
    "distributed.store.wait_log": {
        "_FIRST_S": "it is said for what a member waits",
        "WITHOUT_LIMIT_S": "no limit",
    },
    "integrations.dask": {
        "_LOOK_S": "free workers are looked for again",
        "_MOST_LOOK_S": "and at most so long later",
        "_LEAVE_S": "the others have noticed that a worker closes",
    },
    "integrations.group": {
        "_LOOK_S": "the loop looks for workers that others declared lost",
        "GRACE_S": "after a failure the other workers have ended by themselves",
    },
    "launch.ending": {
        "SHUTDOWN_S": "workers have saved after SIGTERM",
        "_EXIT_S": "a worker that used all of that has ended",
        "CTRL_C_S": "workers have ended after a Ctrl-C",
        "NOTICE_S": "it is said for whom the end waits",
        "_NEXT_NOTICE_S": "and again",
        "_LONGEST_PAUSE_S": "and at least so often",
        "KILLED_S": "a process is gone after SIGKILL",
    },
    "launch.flags": {
        "NODES_WAIT_S": "all nodes have come",
        "REJOIN_S": "another launcher has taken the place of a lost one",
    },
    "launch.gathering": {
        "_LOOK_S": "cards are read",
        "_TELL_S": "the others have read a mistake",
        "_LIVES_S": "a launcher that holds a place has shown that it lives",
    },
    "launch.job": {
        "NOTICES_S": "a worker has noticed that another failed, before SIGTERM",
        "SPARED_S": "a worker has ended its traceback, before a signal",
        "_TWICE_S": "two signals are two requests",
        "_HURRIED_OUTPUT_S": "the last output is read after a Ctrl-C",
    },
    "launch.job_reading": {
        "STALL_S": "a wait is shown as a stall",
        "_ANSWER_S": "launchers have read their workers",
        "_MEET_S": "the job has answered",
    },
    "launch.lost_workers": {
        "PROGRESS_S": "a worker that computes has used processor time",
        "_LOOK_S": "the store is looked at",
        "_CLOSE_S": "the thread has ended",
    },
    "launch.manifest": {
        "_GRACE_S": "a job that the engine ends has saved",
        "_MARGIN_S": "and its launcher has ended",
    },
    "launch.monitor": {
        "WORKERS_S": "a worker that has not answered is silent",
        "_WATCH_S": "a question is waited for again",
        "_PAUSE_S": "the store is tried again",
        "_CLOSE_S": "the thread has ended",
    },
    "launch.nodes": {
        "_LOOK_S": "the other nodes are looked at",
        "LOST_S": "a silent launcher is lost",
        "_CLOSE_S": "the thread has ended",
    },
    "launch.output": {"HELD_TEXT_S": "a traceback is printed though its process lives"},
    "launch.report": {"NOTICED_S": "others noticed a silent end before the launcher"},
    "launch.roll": {"BEAT_S": "a launcher tells that it lives"},
    "launch.rounds": {
        "_HURRIED_GOODBYE_S": "other nodes are notified after a Ctrl-C",
        "_GOODBYE_S": "other nodes have ended after SIGTERM",
    },
    "launch.stopped_workers": {
        "STOPPED_S": "a stopped worker is ended",
        "LOOK_EVERY_S": "stopped workers are looked for",
    },
    "launch.store_connector": {
        "ASK_S": "the store has answered",
        "_TRY_S": "the store is tried again",
        "_PAUSE_S": "and pauses in between",
    },
    "launch.top": {
        "_CONNECT_S": "the job has been found",
        "_RATE_S": "the least time over which a rate is measured",
    },
    "concurrency.pool_watcher": {
        "LOOK_EVERY_S": "a pool that works is looked at",
        "_AFTER_FAILURE_S": "a look that failed is repeated",
    },
    "concurrency.thread_pool": {
        "LAZY_LOOK_EVERY_S": "a pool of short work is looked at",
        "LONG_WORK_S": "work is long",
        "_FREQUENT_FOR_S": "looks are frequent after long work",
        "_LATELY_S": "a wait that has ended still names its reason",
        "PATIENCE_S": "another thread begins",
        "IDLE_S": "an idle thread ends",
    },
}


class Before(NamedTuple):
    """The time `first` must end before the time `then` ends, for the reason `why`."""

    first: str
    then: str
    why: str


_SESSION = "distributed.rpc.workers.session.LivenessTimeouts."
_FROZEN = "distributed.sockets.liveness_timeouts.FROZEN_S"
_BARRIER, _PROGRESS = "distributed.rpc.shutdown_barrier.", "distributed.rpc.workers.progress."
_OPTIONS, _TCP = "distributed.sockets.options.", "distributed.store.tcp_store."

RELATIONS = (
    # A peer that stops responding.
    Before("distributed.sockets.pulse.BEAT_S", _SESSION + "notice_s", "knocks notice the silence"),
    Before(_SESSION + "notice_s", _SESSION + "suspect_s", "a suspect's connection is broken"),
    Before(_SESSION + "suspect_s", _FROZEN, "a warning comes before the loss"),
    Before(
        _SESSION + "notice_s",
        "distributed.sockets.liveness_timeouts.LEAST_FROZEN_S",
        "a broken connection has time to come back, whatever users choose",
    ),
    Before(_SESSION + "grace_s", _FROZEN, "a refusal says more than silence"),
    Before(_OPTIONS + "UNREACHABLE_MS", _SESSION + "suspect_s", "the kernel notices a cut first"),
    Before(_OPTIONS + "HANDSHAKE_MS", _FROZEN, "a second handshake is tried before the loss"),
    Before(
        _OPTIONS + "UNREACHABLE_MS",
        "distributed.sockets.connections._YIELDS_AFTER_S",
        "a cut connection has ended before a new one asks for its place",
    ),
    Before(
        _OPTIONS + "HANDSHAKE_MS",
        "distributed.sockets.connections.SPEAKS_WITHIN_S",
        "whoever is in a handshake is not cut off for silence",
    ),
    Before(
        "distributed.rpc.workers.watching._LOOK_AFTER_S",
        "distributed.sockets.pulse.BEAT_S",
        "an address is looked at before the next knock",
    ),
    Before(
        "distributed.rpc.workers.watching._ANSWERS_WITHIN_S",
        _SESSION + "suspect_s",
        "a host that answers is heard before its worker is suspected",
    ),
    Before("distributed.rpc.workers.worker._LEAST_S", "distributed.rpc.workers.worker._LOOK_S", ""),
    Before(
        "distributed.rpc.workers.worker._LOOK_S",
        _SESSION + "suspect_s",
        "a silent peer is looked at several times before it is suspected",
    ),
    Before(
        "distributed.rpc.workers.end_reasons.BEAT_S",
        "distributed.rpc.workers.stuck._HOLDS_S",
        "a report holds until the next answer is due",
    ),
    Before("distributed.rpc.workers.end_reasons.BEAT_S", _SESSION + "unresponsive_s", ""),
    # A process that was itself stopped.
    Before(_PROGRESS + "BUCKET_S", _PROGRESS + "_HELD_UP_S", "alarms of one bucket are punctual"),
    Before(_PROGRESS + "_HELD_UP_S", _PROGRESS + "_LATE_S", "a delay is shorter than a stop"),
    Before(_PROGRESS + "_LATE_S", _PROGRESS + "_SILENT_S", "peers notice long stops alone"),
    Before(
        _SESSION + "notice_s",
        _PROGRESS + "_SILENT_S",
        "who stood still for so long was found silent",
    ),
    Before(_PROGRESS + "_SILENT_S", _FROZEN, "a stop is known before it is a loss"),
    Before(
        _PROGRESS + "_SHORTER_S",
        "distributed.sockets.liveness_timeouts.LEAST_FROZEN_S",
        "what is left of the shortest limit is more than nothing",
    ),
    Before("distributed.store.store.ASK_S", _PROGRESS + "_LATELY_S", "peers' reports have come"),
    # Leaving a group.
    Before(
        _SESSION + "look_whether_read_s",
        _SESSION + "settle_s",
        "all is found read before a peer is given up",
    ),
    Before(
        _SESSION + "settle_s",
        "distributed.rpc.leaving.LINGER_S",
        "peers read what came before the goodbye while the leaver lingers",
    ),
    Before(
        "distributed.rpc.leaving.LINGER_S",
        _SESSION + "leave_s",
        "a leaver closes its connections before its peers do",
    ),
    Before("distributed.rpc.leaving.LEAST_S", "distributed.rpc.constants.SHUTDOWN_TIMEOUT_S", ""),
    Before(
        "distributed.rpc.leaving.DRAIN_AT_EXIT_S",
        "distributed.rpc.leaving.DRAIN_S",
        "the end of a process is in more of a hurry",
    ),
    Before(
        "distributed.rpc.leaving.DRAIN_S",
        "distributed.rpc.constants.SHUTDOWN_TIMEOUT_S",
        "running functions do not use up the shutdown",
    ),
    Before(_BARRIER + "_HOLD_UP_S", _BARRIER + "_LATE_S", "a busy member is not a late one"),
    Before(_BARRIER + "_LATE_S", _BARRIER + "_HELD_UP_S", "the last one to give up is heard"),
    Before(
        _BARRIER + "_HELD_UP_S",
        "distributed.rpc.constants.SHUTDOWN_TIMEOUT_S",
        "a late report comes within the timeout",
    ),
    Before(_BARRIER + "_ASK_WHO_S", "distributed.rpc.leaving.FIRST_S", "the leader names them"),
    # References and gradients.
    Before(
        "distributed.autograd.outbox.HOLD_S",
        "distributed.autograd.stall.FIRST_POLL_S",
        "gradients that gather are not taken for a stall",
    ),
    Before(
        "distributed.autograd.stall.FIRST_POLL_S", "distributed.autograd.stall._LONGEST_POLL_S", ""
    ),
    Before(
        "distributed.autograd.stall._LONGEST_POLL_S",
        "distributed.autograd.stall._ANSWER_WITHIN_S",
        "several answers are missed before a worker is given up",
    ),
    Before(
        "distributed.autograd.stall.LOOK_S",
        "distributed.autograd.stall._ANSWER_WITHIN_S",
        "a failure elsewhere ends the wait for an answer",
    ),
    Before(
        "distributed.rpc.notices.TOGETHER_S",
        "distributed.rpc.references.context._PASSED_ON_S",
        "notices of references that were passed on have left before their giver's uses end",
    ),
    Before(
        "distributed.rpc.notices.TOGETHER_S",
        "distributed.rpc.notices._LATE_S",
        "notices that gather are not late",
    ),
    Before(
        "distributed.rpc.notices._LATE_S",
        "distributed.rpc.notices._FOR_A_MOMENT_S",
        "a thread that is late gets more time than it was late",
    ),
    Before(
        "distributed.rpc.references.context._PASSED_ON_S",
        "distributed.rpc.notices._FLUSH_S",
        "the last notices wait for what a loss releases",
    ),
    Before(
        "distributed.arena.owner.TRIM_S",
        "distributed.arena.owner.LOST_AFTER_S",
        "a block that may yet be taken outlives unused pages",
    ),
    Before(
        "distributed.rpc.calls.client._RETRY_FIRST_S",
        "distributed.rpc.calls.outgoing.ASK_EVERY_S",
        "a message that can be sent again is not asked about",
    ),
    # Store and launchers.
    Before(_TCP + "_SECRET_PAUSE_S", _TCP + "_LOOK_PAUSE_S", "looking for a file is cheaper"),
    Before(_TCP + "_LOOK_PAUSE_S", _TCP + "_PUBLISHED_WITHIN_S", "several looks are made"),
    Before(_TCP + "_HANDSHAKE_S", _TCP + "_PUBLISHED_WITHIN_S", "one handshake may fail"),
    Before(_TCP + "_CONNECT_TO_JOIN_S", _TCP + "_CONNECT_S", "whoever asks again hurries"),
    Before("distributed.store.store._LOOKS_S", "distributed.store.store.ASK_S", ""),
    Before(
        "launch.manifest._MARGIN_S",
        "launch.manifest._GRACE_S",
        "workers save within most of the time that their engine gives",
    ),
    Before("distributed.store.store.ASK_S", "distributed.rpc.workers.group.LOOK_S", ""),
    Before("distributed.rpc.workers.group.TELL_S", "distributed.rpc.workers.group.LOOK_S", ""),
    Before(
        "distributed.rendezvous._KNOCK_S",
        "distributed.rendezvous._COMES_WITHIN_S",
        "several knocks are made before others host the store",
    ),
    Before("launch.roll.BEAT_S", "launch.nodes.LOST_S", "several beats are missed"),
    Before("launch.nodes.LOST_S", "launch.flags.NODES_WAIT_S", ""),
    Before("launch.roll.BEAT_S", "launch.gathering._LIVES_S", "several beats are missed"),
    Before(
        "launch.nodes.LOST_S",
        "launch.flags.REJOIN_S",
        "the others know of the loss before they go on without the node",
    ),
    Before(
        "launch.monitor.WORKERS_S", "launch.job_reading._ANSWER_S", "launchers wait for workers"
    ),
    Before(
        "launch.roll.BEAT_S",
        "launch.rounds._GOODBYE_S",
        "the others began a beat later, and their report takes another",
    ),
    Before("launch.rounds._HURRIED_GOODBYE_S", "launch.rounds._GOODBYE_S", ""),
    Before("launch.stopped_workers.LOOK_EVERY_S", "launch.stopped_workers.STOPPED_S", ""),
    Before("launch.store_connector._PAUSE_S", "launch.store_connector._TRY_S", ""),
    Before("launch.store_connector._TRY_S", "launch.store_connector.ASK_S", ""),
    Before("launch.job.NOTICES_S", "launch.job.SPARED_S", "a traceback takes longer than an error"),
    Before("launch.report.NOTICED_S", "launch.job.SPARED_S", ""),
    Before("launch.ending.NOTICE_S", "launch.ending._NEXT_NOTICE_S", "pauses grow"),
    Before("launch.ending._NEXT_NOTICE_S", "launch.ending._LONGEST_PAUSE_S", "pauses grow"),
    Before("launch.ending.CTRL_C_S", "launch.ending.SHUTDOWN_S", "a person waits"),
    # Threads.
    Before(
        "concurrency.thread_pool.LONG_WORK_S",
        "concurrency.pool_watcher.LOOK_EVERY_S",
        "frequent looks find long work",
    ),
    Before(
        "concurrency.pool_watcher.LOOK_EVERY_S",
        "concurrency.thread_pool.PATIENCE_S",
        "a pool is looked at before it grows",
    ),
    Before("concurrency.thread_pool.PATIENCE_S", "concurrency.thread_pool.LAZY_LOOK_EVERY_S", ""),
    Before("concurrency.thread_pool._FREQUENT_FOR_S", "concurrency.thread_pool.IDLE_S", ""),
)

# Pairs of times that must be equal, since both describe the same limit.
EQUAL = (
    ("launch.nodes.LOST_S", _FROZEN),
    ("launch.stopped_workers.STOPPED_S", _FROZEN),
    (_SESSION + "frozen_s", _FROZEN),
    ("distributed.rpc.zmq_agent.ZmqAgent.drain_s", "distributed.rpc.leaving.DRAIN_S"),
    ("distributed.rpc.message.limits.Limits.handshake_s", _OPTIONS + "HANDSHAKE_MS"),
)
