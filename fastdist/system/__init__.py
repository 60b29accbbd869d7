"""The operating system: files, folders, shared memory, forks, interrupts and imports.

- Files: `atomic_file.py`, `own_folder.py`, `cache_directory.py`, `digest.py`.
- Memory: `page_size.py`; shared by processes: `sealed_memory.py`, `shared_block.py`, `fence.py`.
- Processes: `forked_locks.py` and `forked_imports.py` make forks safe, `quiet_interrupt.py` handles
  Ctrl-C during start-up, and `foreign_text.py` cleans text from other processes.
- Libraries: `blas.py` chooses NumPy's BLAS kernels, `import_hooks.py` imports modules on demand.

The package imports only `core`.
"""
