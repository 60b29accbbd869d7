"""The catalogue: every op, declared once, a file per family."""
