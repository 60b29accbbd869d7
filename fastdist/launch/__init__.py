"""The launcher: starts a job's workers on a node, shows their output, and ends them together.

    main.py             `fastdist run`, from the command line to the exit status
    options.py          the command line, read and checked
    flags.py            the flags: torchrun's names where the meaning is the same
    torchrun_flags.py   torchrun's other flags, and what to use instead
    cluster_places.py   reads nodes, node rank and address from Slurm or Kubernetes
    manifest.py         `fastdist manifest`: scripts for sbatch, JobSets for Kubernetes
    command_parser.py   parser whose errors fit in one line
    nodes.py            this node's part in a job on several nodes: serving the store, rejoining
    roll.py             the state of the nodes in a round: alive, ended or lost; the next round
    store_connector.py  the connection of a node to the store, and reconnection after a break
    gathering.py        lets nodes find each other, and checks that their settings agree
    secret.py           the job secret: given, or created for a single node
    environment.py      the environment variables of a worker
    gpus.py             assigns GPUs to workers
    job_folder.py       the job's private folder, removed at its end
    rounds.py           rounds: all workers start, and start again if one has failed
    job.py              the loop of one round: workers, signals and failures
    ending.py           the end of a round: signals, notices about workers that still run, SIGKILL
    stopped_workers.py  finds workers that a signal has stopped while others have ended
    lost_workers.py     handles workers that other workers report as lost or hanging
    worker_process.py   one worker: its process, its process group, its two pipes
    output.py           carries the workers' output from their pipes to the screen
    output_lines.py     splits the bytes of a pipe into lines
    log_files.py        writes the output to log files
    failure_text.py     finds tracebacks in the output, and the error of each
    screen.py           writes lines of many workers to one terminal or file, without blocking
    signals.py          the launcher's signals as bytes of a pipe, which a selector can wait for
    guard.py            the launcher's end of a pipe to the watcher
    watcher.py          a small process that ends the workers if the launcher is killed
    monitor.py          answers `fastdist top` with readings of this node's workers
    job_address.py      finds the stores of this user's running jobs
    top.py              `fastdist top`, from the command line to the exit status
    job_reading.py      a reading of the complete job: its workers, and their waits for others
    top_table.py        a reading as text, or as tables of the package rich
    report.py           finds the first failure, and prints the report at the end

The launcher has one thread with one selector. Signals arrive through a wake-up pipe, and exits as
SIGCHLD, so the loop sleeps until an event. When a worker has ended, the loop also checks once per
second whether another worker is stopped. A job on several nodes has a second thread for the store.
--restart=worker adds a thread that reads from the store which workers were declared lost.

Each worker leads a separate process group. So Ctrl-C and Ctrl-Z reach only the launcher, which
forwards them. A signal that ends a job is sent to each worker and not to its process group, because
a forked child has the worker's handler too. The other processes of a process group, such as those
of a DataLoader, are killed after the worker. If the launcher is killed, the watcher sees that its
pipe is closed, and kills the process groups.

docs/glossary.md explains the terms.
"""

from __future__ import annotations
