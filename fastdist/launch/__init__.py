"""Starts the workers of a job on this node, shows their output, and ends them all together.

    main.py           `fastdist run`, from the command line to the exit status
    options.py        the command line, read and checked
    flags.py          what may stand on it: torchrun's flags where they mean the same
    torchrun_flags.py the rest of torchrun's, and what to do in place of them
    command_parser.py how mistakes on a command line are told
    nodes.py          the node runs of one job: their store, news of each other, lost ones
    way_to_store.py   how they reach their store, at first and after a cut
    gathering.py      how they find each other, and what does not fit together
    secret.py         the job secret: given, or made for one node
    environment.py    what a worker is told, by environment variables
    gpus.py           which GPUs each worker may see
    job_folder.py     one private folder a job, gone at its end
    rounds.py         the workers' rounds: all start, and all again when one has failed
    job.py            the loop of one round: workers, signals and failures
    ending.py         the end of a round: signals, notices about those that still run, SIGKILL
    stopped.py        workers that lie stopped while others have ended
    lost_workers.py   workers that others report as lost or hanging, in the store
    worker_process.py one worker: its process, its group, its two pipes
    output.py         what the workers write, from their pipes to the screen
    lines.py          bytes of a pipe to lines, and to redrawn ones
    log_files.py      the same, as it came, in files
    failure_text.py   tracebacks: held back, and read for what was raised
    screen.py         lines of many workers to one terminal or file, without ever blocking
    signals.py        the launcher's signals, as something that a selector can wait for
    guard.py          the launcher's end of a pipe to
    watcher.py        a tiny process that ends the workers if the launcher itself is killed
    report.py         which failure was the first, and what is said at the end

One thread, one selector. Signals arrive through a wake-up pipe, exits as SIGCHLD, so the loop
sleeps until something happens; only when a worker has ended does it look each second whether one of
the others lies stopped. Several nodes add a thread that talks with the store, --restart=worker adds
one that reads there which workers were declared lost.

Each worker leads a process group of its own. A Ctrl-C or Ctrl-Z therefore reaches the launcher
alone, which passes it on. An ending signal goes to each worker and not to its group: a forked child
has its handler, too. The rest of the group (a DataLoader's processes) is killed after the worker. A
launcher that is killed leaves nobody to do this: the watcher sees its pipe close, and kills the
groups.
"""

from __future__ import annotations
