"""Starts the workers of a job on this node, shows their output, and ends them all together.

    options.py        the command line: torchrun's flags where they mean the same
    environment.py    what a worker is told, by environment variables
    secret.py         the job secret: given, or made for one node
    job_folder.py     one private folder a job, gone at its end
    worker_process.py one worker: its process, its group, its two pipes
    watcher.py        a tiny process that ends the workers if the launcher itself is killed
    lines.py          bytes of a pipe to lines, redrawn lines and held tracebacks
    screen.py         lines of many workers to one terminal or file, without ever blocking
    job.py            the loop: pipes, signals, exits and deadlines of one node
    nodes.py          the node runs of one job: joining, news of each other, lost ones
    report.py         what is said at the end
    main.py           `fastdist run`

One thread, one selector. Signals arrive through a wake-up pipe, exits as SIGCHLD, so the loop
sleeps until something happens and never looks at a clock to find out. Several nodes add one thread
that talks with the store.

Each worker leads a process group of its own. A Ctrl-C therefore reaches the launcher alone, which
passes it on and counts; what a worker started (a DataLoader's processes) goes with its group. A
launcher that is killed leaves nobody to do this: the watcher sees its pipe close, and kills the
groups.
"""

from __future__ import annotations
