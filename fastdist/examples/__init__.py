"""Jobs that run as they stand: `fastdist run -n 3 -m fastdist.examples.digits`.

digits.py          the job: a model split over two workers, and its training; read this first
digits_settings.py what its command line may change
digits_data.py     the 1,797 handwritten digits (digits.npz, credit in DIGITS_CREDIT.txt)
digits_check.py    how good the model is, and whether one process would get the same
numpy_mlp.py       the same model written out in NumPy, which gradients are held against
digits_record.py   what is shown during the training and told at its end
digits_measures.py what each worker measures of itself, by hooks
digits_summary.py  the figures as text and pictures, and whether promises were kept
stopwatch.py       how long a worker spent on what
progress.py        the bar on a terminal, plain lines elsewhere
svg.py             shapes, text and axes, and on them
line_plot.py       a picture of one or more curves
time_line.py       a picture of what each worker did when
"""

from __future__ import annotations
