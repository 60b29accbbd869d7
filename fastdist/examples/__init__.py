"""Jobs that run as they stand: `fastdist run -n 3 -m fastdist.examples.digits`.

digits.py        the job: layers on two workers, the trainer on a third
digits_data.py   the 1,797 handwritten digits (digits.npz, credit in DIGITS_CREDIT.txt)
numpy_mlp.py     the same model written out in NumPy, which every gradient is held against
progress.py      the bar on a terminal, plain lines elsewhere
line_plot.py     an SVG of one or more curves
time_line.py     an SVG of what each worker did when
"""

from __future__ import annotations
