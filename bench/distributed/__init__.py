"""Benchmarks of several processes: RPC, distributed backward passes, jobs and faults."""
