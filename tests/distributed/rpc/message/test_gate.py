"""In strict mode callers may only use exported and allowed names."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fastdist.core.errors import ForbiddenFunctionError, MessageError
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import deserialize
from fastdist.language.scalar import parse

_SOURCE = """
import os
from os import system
from subprocess import run
CONFIGURATION = {}

class Outer:
    class Inner:
        pass
    def method(self): ...

class Trouble(Exception):
    pass

def function():
    return "ran"
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a loaded user module, in strict mode."""
    monkeypatch.setattr(gate, "_exported", set(gate._exported))
    monkeypatch.setattr(gate, "_allowed", set(gate._allowed))
    made = ModuleType("module_of_a_user")
    exec(_SOURCE, made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    gate.set_mode(gate.STRICT)
    yield made.__name__
    gate.set_mode(gate.OPEN)


@pytest.mark.parametrize("name", ["function", "Outer", "Outer.Inner", "Outer.method", "Trouble"])
def test_an_allowed_module_gives_what_it_defines(module: str, name: str) -> None:
    gate.allow(module)
    assert gate.find(module, name).__qualname__ == name


@pytest.mark.parametrize(
    "name", ["os", "os.system", "system", "run", "CONFIGURATION", "Outer.__class__", "__builtins__"]
)
def test_an_allowed_module_does_not_give_what_it_imported_or_holds(module: str, name: str) -> None:
    gate.allow(module)
    with pytest.raises(ForbiddenFunctionError, match=r"@rpc\.export"):
        gate.find(module, name)


def test_a_thing_that_is_allowed_by_its_own_name_may_be_anything(module: str) -> None:
    gate.allow(f"{module}.CONFIGURATION")
    assert gate.find(module, "CONFIGURATION") == {}


def test_a_command_cannot_be_run_by_way_of_an_allowed_module(module: str) -> None:
    gate.allow(module)
    body = pickle.dumps(0, 5)[:2] + _text(module) + _text("os.system") + b"\x93"
    with pytest.raises(ForbiddenFunctionError):
        deserialize(body + _text("exit 1") + b"\x85R.", 1, [])


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("package", ["core", "language"])
def test_an_earlier_name_is_let_through_where_the_name_of_today_is(package: str) -> None:
    earlier, today = "fastdist.core.scalar", "fastdist.language.scalar"
    for name in ("parse", "threading"):
        with pytest.raises(ForbiddenFunctionError, match=rf"{today}\.{name} may not be used"):
            gate.find(earlier, name)
    pickle.loads(f"c{earlier}\nparse\n.".encode())  # loads the module of the new name
    with pytest.raises(ForbiddenFunctionError):
        gate.find(earlier, "parse")
    gate.allow(f"fastdist.{package}.scalar")
    assert gate.find(earlier, "parse") is gate.find(today, "parse") is parse
    with pytest.raises(ForbiddenFunctionError):
        gate.find(earlier, "threading")


def _text(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def test_exceptions_are_found_where_they_are_defined_without_asking_anybody(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imports_what_it_is_asked_for(name: str) -> object:
        raise AssertionError(f"ran for a stranger: {name}")

    loaded = sys.modules[module]
    monkeypatch.setattr(loaded, "__getattr__", imports_what_it_is_asked_for, raising=False)
    assert gate.find(module, "Trouble") is loaded.__dict__["Trouble"]
    assert gate.find("builtins", "ValueError") is ValueError
    for name in ("missing", "os.error", "Outer.missing", "", "Trouble.args"):
        with pytest.raises(ForbiddenFunctionError):
            gate.find(module, name)
    with pytest.raises(ForbiddenFunctionError):
        gate.find("no.module.of.ours", "Trouble")


@pytest.mark.parametrize("mode", [gate.OPEN, gate.STRICT])
def test_a_name_of_a_module_that_another_thread_imports_is_waited_for(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two calls need a module at the same time: one imports it, the other finds it half initialized.
    name = f"module_that_takes_its_time_{mode}"
    Path(tmp_path, f"{name}.py").write_text(
        "from fastdist.distributed.rpc.message import gate\n"
        "from builtins import begun, may_go_on\n"
        "begun.set()\n"
        "assert may_go_on.wait(20)\n"
        "@gate.export\n"
        "def function(): return 'ran'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gate, "_exported", set(gate._exported))
    begun, may_go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("builtins.begun", begun, raising=False)
    monkeypatch.setattr("builtins.may_go_on", may_go_on, raising=False)
    timer = threading.Timer(0.2, may_go_on.set)
    importing = threading.Thread(target=__import__, args=(name,))
    importing.start()
    try:
        assert begun.wait(20) and not hasattr(sys.modules[name], "function")
        gate.set_mode(mode)
        timer.start()
        assert gate.find_function(f"{name}:function".encode())() == "ran"
    finally:
        gate.set_mode(gate.OPEN)
        may_go_on.set()
        importing.join()
        if timer.ident is not None:
            timer.join()
        del sys.modules[name]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gate.find("fastdist.distributed.rpc.message.gate", "nothing")


def test_a_name_that_is_no_text_is_a_message_error() -> None:
    with pytest.raises(MessageError, match="is not the name of a function"):
        gate.find_function(b"\xff\xfe:\xff")


def test_a_name_that_has_come_to_mean_something_else_is_refused_though_it_was_called(
    module: str,
) -> None:
    loaded = sys.modules[module]
    gate.export(loaded.function)
    name = f"{module}:function".encode()
    assert gate.find_function(name) is loaded.function
    loaded.function = loaded.system  # type: ignore[attr-defined]
    with pytest.raises(ForbiddenFunctionError):
        gate.find_function(name)


def test_what_a_body_only_names_it_cannot_change(module: str) -> None:
    gate.allow(module)
    named = b"\x80\x05" + _text(module) + _text("Outer") + b"\x93"
    state = b"}" + _text("method") + b"Ns"
    for body in (named + state + b"b.", named + b"\x94" + b"N" + state + b"\x86b."):
        with pytest.raises(MessageError, match="change something that it only names"):
            deserialize(body, 1, [])
    # Without the scan of the pickle the class would be changed for everybody.
    pickle.loads(named + b"N" + state + b"\x86b.")
    assert sys.modules[module].__dict__["Outer"].method is None
