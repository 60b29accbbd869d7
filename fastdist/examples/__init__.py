"""Jobs that run as they stand: `fastdist run -n 3 -m fastdist.examples.digits`.

digits.py          the job: the trainer's side, and the comparison with one process
digits_settings.py what its command line may change
digits_part.py     the layers on a worker, and what a worker reports
digits_summary.py  what is told at the end, and whether promises were kept
digits_data.py     the 1,797 handwritten digits (digits.npz, credit in DIGITS_CREDIT.txt)
numpy_mlp.py       the same model written out in NumPy, which gradients are held against
stopwatch.py       how long a worker spent on what
progress.py        the bar on a terminal, plain lines elsewhere
svg.py             shapes, text and axes, and on them
line_plot.py       a picture of one or more curves
time_line.py       a picture of what each worker did when
"""

from __future__ import annotations
