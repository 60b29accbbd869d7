"""The commands restore an environment after removal and after an error at any step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.version import TORCH_VERSION
from fastdist.installation import constraint, distribution, install
from fastdist.installation.environment import Environment, InstallError
from tests.installation.places import INFO, add_torch, files_in, make_place

CONFIGURATIONS = [
    None,
    "[global]\nindex-url = https://i/simple\n",
    "# ours\n[install]\nconstraint =\n    /v/a.txt\n\n[list]\nformat = columns\n",
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    return use(monkeypatch, make_place(tmp_path / "with space" / "v"))


def use(monkeypatch: pytest.MonkeyPatch, place: Environment) -> Environment:
    """Use `place` as the environment of this Python, without other configuration."""
    monkeypatch.setattr(install, "this_environment", lambda: place)
    monkeypatch.setattr(install, "require_suitable", lambda environment: None)
    monkeypatch.setenv("HOME", place.prefix)
    return place


def variables(place: Environment) -> dict[str, str]:
    return {"XDG_CONFIG_DIRS": place.prefix}


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_removal_leaves_what_was_there_before(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = use(monkeypatch, make_place(tmp_path / "v", text))
    before = files_in(place.prefix)
    report = install.install(variables(place))
    between = files_in(place.prefix)
    assert f"torch {TORCH_VERSION} is installed in {place.site_packages}" in report
    assert {name: between.get(name) for name in before if name != "pip.conf"} == {
        name: data for name, data in before.items() if name != "pip.conf"
    }
    url = constraint.url_of(constraint.file_of(place))
    assert url in between["pip.conf"].decode() and f"export UV_CONSTRAINT={url}" in report
    assert "warning" not in report
    assert "removed torch from" in install.uninstall()
    assert files_in(place.prefix) == before
    assert install.uninstall().startswith("nothing to remove")


def test_a_second_call_changes_nothing_and_says_so(place: Environment) -> None:
    install.install(variables(place))
    before = files_in(place.prefix)
    assert f"torch {TORCH_VERSION} is already installed" in install.install(variables(place))
    assert files_in(place.prefix) == before


@pytest.mark.parametrize(
    "lost", [f"{INFO}/METADATA", f"{INFO}/RECORD", "torch/__init__.py", constraint.FILE_NAME]
)
def test_a_second_call_repairs(place: Environment, lost: str) -> None:
    install.install(variables(place))
    whole = files_in(place.prefix)
    (Path(place.site_packages) / lost).unlink()
    assert "is installed in" in install.install(variables(place))
    assert files_in(place.prefix) == whole


def test_a_second_call_puts_the_line_of_pip_conf_back(place: Environment) -> None:
    install.install(variables(place))
    os.unlink(place.pip_file)
    install.install(variables(place))
    assert constraint.FILE_NAME in Path(place.pip_file).read_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("earlier", [False, True])
def test_an_error_at_any_step_leaves_what_was_there(
    error: BaseException, earlier: bool, place: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(place.pip_file).write_text("[install]\nuser = no\n")
    if earlier:
        install.install(variables(place))
        (Path(place.site_packages) / INFO / "METADATA").write_text("older")
        Path(constraint.file_of(place)).write_text("older")
    before = files_in(place.prefix)
    steps = 0
    for fails_at in range(40):
        done = count_calls(monkeypatch, fails_at, error)
        try:
            install.install(variables(place))
        except type(error):
            monkeypatch.undo()
            use(monkeypatch, place)
            assert files_in(place.prefix) == before
            steps += 1
        else:
            assert done[0] <= fails_at
            break
    assert steps >= 10 and files_in(place.prefix) != before


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_either_command_continues_after_the_other_was_killed_at_any_step(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    for killed_at in range(60):
        place = use(monkeypatch, make_place(tmp_path / str(killed_at), "[install]\nuser = no\n"))
        before = files_in(place.prefix)
        if command == "uninstall":
            install.install(variables(place))
        kill_at(monkeypatch, killed_at)
        try:
            install.install(variables(place)) if command == "install" else install.uninstall()
        except KeyboardInterrupt:
            steps += 1
        else:
            break
        finally:
            monkeypatch.undo()
        use(monkeypatch, place)
        if killed_at % 2:
            install.install(variables(place))
            assert distribution.is_complete(place.site_packages)
            assert constraint.FILE_NAME in Path(place.pip_file).read_text()
        install.uninstall()
        assert files_in(place.prefix) == before
    assert steps >= 8


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let all file changes fail from this step on, including those that would undo earlier ones."""
    done = [0]

    def dying(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            done[0] += 1
            if done[0] > step:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    for module in (install, distribution):
        monkeypatch.setattr(module, "atomic_file", dying(module.atomic_file))
    for name in ("rename", "mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))


def count_calls(monkeypatch: pytest.MonkeyPatch, fails_at: int, error: BaseException) -> list[int]:
    """Let one call that changes files fail. Later calls, which undo earlier changes, succeed."""
    done = [0]

    def failing(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            done[0] += 1
            if done[0] == fails_at + 1:
                raise error
            return function(*arguments, **options)

        return call

    for module in (install, distribution):
        monkeypatch.setattr(module, "atomic_file", failing(module.atomic_file))
    monkeypatch.setattr(os, "rename", failing(os.rename))
    monkeypatch.setattr(os, "mkdir", failing(os.mkdir))
    return done


def test_the_metadata_of_another_version_is_replaced(place: Environment) -> None:
    install.install(variables(place))
    whole = files_in(place.prefix)
    site = Path(place.site_packages)
    os.rename(site / INFO, site / "torch-2.12.0+fastdist.dist-info")
    (site / "torch" / "__init__.py").write_text("# Written by `fastdist as-torch --install`.\n")
    install.install(variables(place))
    assert files_in(place.prefix) == whole


def test_another_torch_is_left_alone(place: Environment) -> None:
    add_torch(place)
    before = files_in(place.prefix)
    with pytest.raises(InstallError, match=r"torch 2\.14\.1 is installed in .*pip uninstall torch"):
        install.install(variables(place))
    assert files_in(place.prefix) == before
    assert install.uninstall().startswith("nothing to remove")
    assert files_in(place.prefix) == before


@pytest.mark.parametrize("name", ["torch.py", "torch/lib/libtorch.so"])
def test_files_named_torch_without_a_distribution_are_left_alone(
    place: Environment, name: str
) -> None:
    path = Path(place.site_packages) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    with pytest.raises(InstallError, match="belongs to no distribution that fastdist wrote"):
        install.install(variables(place))


def test_the_constraint_goes_where_another_torch_replaced_ours(place: Environment) -> None:
    before = files_in(place.prefix)
    install.install(variables(place))
    distribution.remove(place.site_packages)
    add_torch(place)
    told = install.uninstall()
    assert "removed the constraint for torch from" in told
    assert "left torch 2.14.1, which fastdist did not install" in told
    after = files_in(place.prefix)
    assert {name: data for name, data in after.items() if "/torch/" not in name
            and "torch-2.14.1" not in name} == before  # fmt: skip


def test_files_of_others_in_the_folder_stay(place: Environment) -> None:
    install.install(variables(place))
    own = Path(place.site_packages) / "torch" / "plugin.py"
    own.write_text("")
    (own.parent / "__pycache__").mkdir()
    (own.parent / "__pycache__" / "__init__.cpython-311.pyc").write_text("")
    assert f"left {own.parent}: it has files that fastdist did not write" in install.uninstall()
    assert list(own.parent.iterdir()) == [own]


def test_folders_of_runs_that_were_killed_are_removed(place: Environment) -> None:
    (Path(place.site_packages) / ".fastdist-torch-abc" / "new").mkdir(parents=True)
    install.install(variables(place))
    assert not [name for name in os.listdir(place.site_packages) if name.startswith(".")]


def test_constraints_of_other_levels_hold_as_well(place: Environment) -> None:
    user = Path(place.prefix) / ".config" / "pip" / "pip.conf"
    user.parent.mkdir(parents=True)
    user.write_text("[global]\nconstraint = /c/a.txt https://c/b.txt\n")
    report = install.install(variables(place))
    text = Path(constraint.file_of(place)).read_text()
    assert "-c file:///c/a.txt\n-c https://c/b.txt\n" in text and "warning" not in report
    user.unlink()
    install.install(variables(place))
    assert "-c" not in Path(constraint.file_of(place)).read_text()


def test_two_pythons_of_one_prefix_keep_a_line_each(
    place: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Environment(f"{place.site_packages}-of-the-other", place.prefix)
    os.mkdir(other.site_packages)
    install.install(variables(place))
    alone = Path(place.pip_file).read_text()
    use(monkeypatch, other)
    install.install(variables(place))
    assert Path(place.pip_file).read_text().count(constraint.FILE_NAME) == 2
    # pip reads the configuration of both Pythons; a marker limits each line to one Python version.
    assert "; python_version ==" in Path(constraint.file_of(other)).read_text()
    install.uninstall()
    assert Path(place.pip_file).read_text() == alone


def test_what_makes_pip_ignore_the_line_is_reported(place: Environment) -> None:
    url = constraint.url_of(constraint.file_of(place))
    extra = Path(place.prefix) / "x.conf"
    extra.write_text("[install]\nconstraint = x.txt\n")
    for more, words in (
        ({"PIP_CONSTRAINT": "a.txt"}, f'PIP_CONSTRAINT="$PIP_CONSTRAINT {url}"'),
        ({"PIP_CONFIG_FILE": os.devnull}, "unset PIP_CONFIG_FILE"),
        ({"PIP_CONFIG_FILE": str(extra)}, f"add {url} to `constraint` in the section [install]"),
        ({"UV_CONSTRAINT": "a.txt"}, f'uv:  export UV_CONSTRAINT="$UV_CONSTRAINT {url}"'),
    ):
        report = install.install({**variables(place), **more})
        assert words in report and report.count("warning") == ("UV_CONSTRAINT" not in more)
    assert "warning" not in install.install({**variables(place), "PIP_CONSTRAINT": f"a.txt {url}"})


def test_conda_is_named(place: Environment) -> None:
    (Path(place.prefix) / "conda-meta").mkdir()
    assert "`conda install` of a package" in install.install(variables(place))


def test_a_pip_conf_that_pip_cannot_read_is_named(place: Environment) -> None:
    Path(place.pip_file).write_text("constraint = a\n")
    with pytest.raises(InstallError, match="is not a configuration that pip can read"):
        install.install(variables(place))


def test_a_pip_conf_that_is_a_link_stays_one(place: Environment) -> None:
    target = Path(place.prefix) / "shared.conf"
    target.write_text("")
    Path(place.pip_file).symlink_to(target)
    install.install(variables(place))
    assert constraint.FILE_NAME in target.read_text()
    install.uninstall()
    assert target.read_text() == "" and Path(place.pip_file).is_symlink()
