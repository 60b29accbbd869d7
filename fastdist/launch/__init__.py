"""The launcher: starts the workers of a job on a node, shows their output, and ends them together.

    main.py             `fastdist run`, from the command line to the exit status
    options.py          the command line, read and checked
    flags.py            its flags: torchrun's where they mean the same
    torchrun_flags.py   torchrun's other flags, and what to use instead
    cluster_places.py   nodes, node rank and address from Slurm or Kubernetes
    manifest.py         `fastdist manifest`: scripts for sbatch, manifests of JobSets
    command_parser.py   errors of a command line
    nodes.py            several nodes in one job: their store, and how they come back to it
    roll.py             the nodes of a round: which live, have ended or are lost, and what follows
    store_connector.py  the connection of a node to the store, first and after a break
    gathering.py        how nodes meet, and what does not fit together
    secret.py           the job secret: given, or made for one node
    environment.py      the environment variables of a worker
    gpus.py             which GPUs each worker may see
    job_folder.py       one private folder for each job, removed at its end
    rounds.py           rounds: all workers start, and start again when one has failed
    job.py              the loop of one round: workers, signals and failures
    ending.py           the end of a round: signals, notices about workers that still run, SIGKILL
    stopped_workers.py  workers that a signal has stopped while others have ended
    lost_workers.py     workers that others report in the store as lost or hanging
    worker_process.py   one worker: its process, its process group, its two pipes
    output.py           output of the workers, from their pipes to the screen
    output_lines.py     bytes of a pipe as lines
    log_files.py        the same bytes in log files
    failure_text.py     finds tracebacks in the output, and the error that they report
    screen.py           lines of many workers to one terminal or file, without blocking
    signals.py          the launcher's signals, as a file that a selector can wait for
    guard.py            the launcher's end of a pipe to the watcher
    watcher.py          a small process that ends the workers if the launcher is killed
    monitor.py          the launcher's part in `fastdist top`: readings of the workers here
    job_address.py      where the running jobs of this user have their stores
    top.py              `fastdist top`, from the command line to the exit status
    job_reading.py      one reading of a whole job, and its waits
    top_table.py        the same as text, or as tables of the package rich
    report.py           which failure was first, and what is printed at the end

One thread uses one selector. Signals arrive through a wake-up pipe and exits as SIGCHLD, so the
loop sleeps until something happens. Only after a worker has ended does it check, once a second,
whether another one is stopped. A job on several nodes has a second thread for the store, and
--restart=worker a thread that reads there which workers were declared lost.

Each worker leads a separate process group. So Ctrl-C and Ctrl-Z reach the launcher alone, which
forwards them. A signal that ends a job goes to each worker and not to its group, because a forked
child has the worker's handler too. The rest of the group, such as the processes of a DataLoader, is
killed after the worker. If the launcher is killed, the watcher sees its pipe close and kills the
groups.

The terms are explained in docs/glossary.md.
"""

from __future__ import annotations
