"""The launcher: starts the workers of a job on a node, shows their output, and ends them together.

    main.py           `fastdist run`, from the command line to the exit status options.py        the
    command line, read and checked flags.py          its flags: torchrun's where they mean the same
    torchrun_flags.py the rest of torchrun's, and what to do instead command_parser.py messages for
    mistakes on a command line nodes.py          the node runs of one job: their store, their
    messages, lost ones way_to_store.py   how they connect to their store, at first and after a cut
    gathering.py      how they find each other, and settings that do not agree secret.py         the
    job secret: given, or made for one node environment.py    the environment variables of a worker
    gpus.py           which GPUs each worker may see job_folder.py     one private folder a job,
    gone at its end rounds.py         the workers' rounds: all start, and all again when one has
    failed job.py            the loop of one round: workers, signals and failures ending.py
    the end of a round: signals, notices about those that still run, SIGKILL stopped_workers.py
    workers that are stopped while others have ended lost_workers.py   workers that others report as
    lost or hanging, in the store worker_process.py one worker: its process, its group, its two
    pipes output.py         the workers' output, from their pipes to the screen output_lines.py
    bytes of a pipe to lines, and to redrawn ones log_files.py      the same, as it came, in files
    failure_text.py   tracebacks: held back, and read for the error screen.py         lines of many
    workers to one terminal or file, without ever blocking signals.py        the launcher's signals,
    as something that a selector can wait for guard.py          the launcher's end of a pipe to
    watcher.py        a tiny process that ends the workers if the launcher itself is killed
    report.py         which failure was the first, and the report at the end

One thread, one selector. Signals arrive through a wake-up pipe, exits as SIGCHLD, so the loop
sleeps until something happens; only when a worker has ended, it checks each second whether one of
the others is stopped. Several nodes add a thread that uses the store, --restart=worker adds one
that reads there which workers were declared lost.

Each worker leads a separate process group. A Ctrl-C or Ctrl-Z therefore reaches only the launcher,
which passes it on. An ending signal is sent to each worker and not to its group: a forked child has
the worker's handler, too. The rest of the group (a DataLoader's processes) is killed after the
worker. If the launcher is killed, the watcher sees its pipe close, and kills the groups.

The terms are explained in docs/glossary.md.
"""

from __future__ import annotations
