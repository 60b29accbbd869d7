"""Faults that tests inject into simulated devices: delays, laziness, failures, hangs, no memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase

from fastdist.core.errors import DeviceError

_NEVER = -1


class Hang:
    """A kernel that hangs until it is released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let the kernel, and the work queued after it, continue."""
        self._released.set()

    def wait(self) -> None:
        self.reached.set()
        self._released.wait()


class _Rule:
    """A fault for one kernel whose name matches `pattern`, after `left` matching kernels ran."""

    def __init__(self, pattern: str, left: int, hang: Hang | None) -> None:
        self.pattern = pattern
        self.left = left
        self.hang = hang


class Behaviour:
    """The faults and delays of simulated streams. All streams share one object; tests change it.

    Kernels have the names that `Backend.kernel` takes. Pointwise kernels are named
    `pointwise: BODY`, and the backend's own kernels are named `copy`, `copy_from_host`,
    `copy_to_host` and `add_into`. Patterns have the syntax of fnmatch.
    """

    def __init__(self) -> None:
        self.lazy = False
        self._delay_seed: int | None = None
        self._longest_s = 0.0
        # Guards _rules and _allocations_left. The thread that holds it acquires no other lock.
        self._rules_lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._hangs: list[Hang] = []
        self._allocations_left = _NEVER

    @contextmanager
    def delays(self, seed: int, longest_s: float = 0.002) -> Iterator[None]:
        """Delay each kernel by up to longest_s. The seed and the stream's name determine delays."""
        self._longest_s, self._delay_seed = longest_s, seed
        try:
            yield
        finally:
            self._delay_seed = None

    def delays_of(self, stream_name: str) -> Iterator[float]:
        """Yield the delay in seconds of each kernel of a stream."""
        seed: int | None = None
        generator = random.Random(0)
        while True:
            if self._delay_seed is None:
                seed = None
                yield 0.0
                continue
            if seed != self._delay_seed:
                seed = self._delay_seed
                generator = random.Random(f"{seed} {stream_name}")
            yield generator.random() * self._longest_s

    def fail_kernel(self, pattern: str, after: int = 0) -> None:
        """Make one kernel whose name matches fail, after `after` matching kernels have run."""
        with self._rules_lock:
            self._rules.append(_Rule(pattern, after, None))

    def hang_kernel(self, pattern: str, after: int = 0) -> Hang:
        """Make one kernel whose name matches hang until the returned Hang is released."""
        hang = Hang()
        with self._rules_lock:
            self._rules.append(_Rule(pattern, after, hang))
            self._hangs.append(hang)
        return hang

    def fail_allocation(self, after: int = 0) -> None:
        """Make one allocation fail as if memory were exhausted, after `after` other allocations."""
        with self._rules_lock:
            self._allocations_left = after

    def clear(self) -> None:
        """Remove pending faults, release hanging kernels, and end laziness and delays."""
        with self._rules_lock:
            hangs, self._hangs = self._hangs, []
            self._rules.clear()
            self._allocations_left = _NEVER
        self.lazy = False
        self._delay_seed = None
        for hang in hangs:
            hang.release()

    def before_kernel(self, name: str) -> None:
        """Fail or hang if a fault matches the kernel. Called by stream threads."""
        if not self._rules:
            return
        rule = self._take_rule(name)
        if rule is None:
            return
        if rule.hang is None:
            raise DeviceError("a fault that a test requested")
        rule.hang.wait()

    def _take_rule(self, name: str) -> _Rule | None:
        with self._rules_lock:
            for rule in self._rules:
                if fnmatchcase(name, rule.pattern):
                    rule.left -= 1
                    if rule.left < 0:
                        self._rules.remove(rule)
                        return rule
        return None

    def allocation_fails(self) -> bool:
        """Return whether this allocation must fail because a test called `fail_allocation`."""
        if self._allocations_left < 0:
            return False
        with self._rules_lock:
            self._allocations_left = max(self._allocations_left, 0) - 1
            return self._allocations_left < 0
