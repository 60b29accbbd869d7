"""A folder is trusted only if no other user can add files to it or replace it."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastdist.system import own_folder
from fastdist.system.own_folder import (
    ForeignFolderError,
    make_own_folder,
    read_own_file,
    require_trusted_folder,
)

NOBODY = 65_534


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    base.mkdir(0o755)
    return base


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make only `path` belong to another user: by chown if root runs this, else in lstat alone."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        return
    lstat = os.lstat

    def lstat_as_given(seen: str) -> object:
        found = lstat(seen)
        if Path(seen) != path:
            return found
        return SimpleNamespace(st_mode=found.st_mode, st_gid=found.st_gid, st_uid=NOBODY)

    monkeypatch.setattr(own_folder.os, "lstat", lstat_as_given)


def test_what_is_missing_is_made_for_this_user_alone_whatever_the_umask(base: Path) -> None:
    before = os.umask(0o002)
    try:
        make_own_folder(str(base / "a" / "b"))
    finally:
        os.umask(before)
    assert [(base / way).stat().st_mode & 0o777 for way in ("a", "a/b")] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o711])
def test_a_folder_that_others_may_only_read_is_own(base: Path, mode: int) -> None:
    base.chmod(mode)
    make_own_folder(str(base))


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_folder_into_which_others_write_is_not_own_sticky_or_not(base: Path, mode: int) -> None:
    base.chmod(mode)
    with pytest.raises(
        ForeignFolderError, match=rf"base', mode {mode:04o}, lets others write into"
    ):
        make_own_folder(str(base))


def test_a_folder_of_another_user_is_not_own(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(base, monkeypatch)
    with pytest.raises(
        ForeignFolderError, match=f"base' belongs to user {NOBODY}, neither to this"
    ):
        make_own_folder(str(base))
    with pytest.raises(ForeignFolderError, match="base' belongs to user"):
        make_own_folder(str(base / "below" / "it"))
    assert list(base.iterdir()) == []


def test_a_folder_of_root_is_no_other_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folder.os, "geteuid", lambda: 4_711)
    with pytest.raises(
        ForeignFolderError, match=r"'/usr' belongs to user 0, not to this one \(4711"
    ):
        make_own_folder("/usr")


def test_a_folder_below_one_that_others_can_change_is_not_own(base: Path) -> None:
    make_own_folder(str(base / "own"))
    base.chmod(0o777)
    with pytest.raises(ForeignFolderError, match="base', mode 0777, lets others write into"):
        make_own_folder(str(base / "own"))


def test_a_folder_of_ones_own_below_a_sticky_one_is_own(base: Path) -> None:
    base.chmod(0o1777)
    make_own_folder(str(base / "own"))


def test_what_others_laid_into_a_sticky_folder_first_is_refused(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.chmod(0o1777)
    (base / "trap").mkdir(0o700)
    give_away(base / "trap", monkeypatch)
    with pytest.raises(ForeignFolderError, match=f"trap' belongs to user {NOBODY}"):
        make_own_folder(str(base / "trap" / "numba"))


def test_a_link_of_ones_own_is_followed_and_the_whole_of_its_way_is_looked_at(base: Path) -> None:
    (base / "far").mkdir(0o700)
    for name, target in (("straight", str(base / "far")), ("relative", "../base/far")):
        (base / name).symlink_to(target)
        make_own_folder(str(base / name / "numba"))
    (base / "far").chmod(0o777)
    for name in ("straight", "relative"):
        with pytest.raises(ForeignFolderError, match="far', mode 0777"):
            make_own_folder(str(base / name / "numba"))


def test_a_link_of_another_user_is_not_followed(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "far").mkdir(0o700)
    (base / "link").symlink_to("far")
    give_away(base / "link", monkeypatch)
    with pytest.raises(ForeignFolderError, match=f"link' belongs to user {NOBODY}"):
        make_own_folder(str(base / "link"))


def test_links_in_a_circle_end(base: Path) -> None:
    (base / "one").symlink_to("two")
    (base / "two").symlink_to("one")
    with pytest.raises(OSError, match="levels of symbolic links"):
        make_own_folder(str(base / "one" / "numba"))


@pytest.mark.parametrize("way", ["file", "file/below"])
def test_what_is_no_folder_is_an_error_of_the_system(base: Path, way: str) -> None:
    (base / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_own_folder(str(base / way))


@pytest.mark.parametrize(
    ("group", "is_own"),
    [
        (SimpleNamespace(gr_gid=77, gr_name="ada", gr_mem=[]), True),
        (SimpleNamespace(gr_gid=77, gr_name="ada", gr_mem=["ada"]), True),
        (SimpleNamespace(gr_gid=77, gr_name="ada", gr_mem=["ada", "bob"]), False),
        (SimpleNamespace(gr_gid=77, gr_name="staff", gr_mem=[]), False),
        (SimpleNamespace(gr_gid=78, gr_name="ada", gr_mem=[]), False),
        (None, False),
    ],
)
def test_a_group_may_write_if_it_is_of_this_user_alone(
    base: Path, monkeypatch: pytest.MonkeyPatch, group: SimpleNamespace | None, is_own: bool
) -> None:
    def find(gid: int) -> SimpleNamespace:
        if group is None:
            raise KeyError(gid)
        return group

    user = SimpleNamespace(pw_uid=os.geteuid(), pw_gid=77, pw_name="ada")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", find)
    base.chmod(0o775)
    if is_own:
        make_own_folder(str(base / "own"))
        return
    with pytest.raises(ForeignFolderError, match="base', mode 0775, lets others write into"):
        make_own_folder(str(base / "own"))


@pytest.mark.parametrize(
    ("uid_map", "is_trusted"), [("0 1000 1\n", True), ("0 0 4294967295\n", False)]
)
def test_users_whom_a_container_does_not_know_may_own_what_lies_above_but_not_the_folder(
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid_map: str,
    is_trusted: bool,
) -> None:
    (tmp_path / "uid_map").write_text(uid_map)
    (tmp_path / "overflow").write_text(f"{NOBODY}\n")
    monkeypatch.setattr(own_folder, "_UID_MAP", str(tmp_path / "uid_map"))
    monkeypatch.setattr(own_folder, "_OVERFLOW_UID", str(tmp_path / "overflow"))
    make_own_folder(str(base / "own"))
    give_away(base, monkeypatch)
    with pytest.raises(ForeignFolderError, match=f"base' belongs to user {NOBODY}"):
        make_own_folder(str(base))
    if is_trusted:
        make_own_folder(str(base / "own"))
        return
    with pytest.raises(ForeignFolderError, match=f"base' belongs to user {NOBODY}"):
        make_own_folder(str(base / "own"))


def test_where_the_system_knows_no_users_the_folder_is_made(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.chmod(0o777)
    monkeypatch.delattr(own_folder.os, "geteuid")
    make_own_folder(str(base / "a" / "b"))
    assert (base / "a" / "b").is_dir()
    (base / "file").write_bytes(b"content")
    assert read_own_file(str(base / "file")) == b"content"


def test_files_of_others_are_not_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = base / "file"
    path.write_bytes(b"content")
    assert read_own_file(str(path)) == b"content"
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    else:
        monkeypatch.setattr(own_folder.os, "geteuid", lambda: NOBODY)
    assert read_own_file(str(path)) is None
    assert read_own_file(str(path), or_roots=True) is None


def test_a_folder_that_is_only_read_may_be_roots_and_is_not_made(base: Path) -> None:
    require_trusted_folder("/usr")
    require_trusted_folder(str(base))
    [path] = [path for path in ("/etc/passwd", "/usr/lib/os-release") if os.path.exists(path)][:1]
    assert read_own_file(path, or_roots=True)
    with pytest.raises(FileNotFoundError):
        require_trusted_folder(str(base / "missing"))
    assert not (base / "missing").exists()


def test_a_folder_that_is_only_read_is_nobody_elses(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(base, monkeypatch)
    with pytest.raises(ForeignFolderError, match="belongs to user"):
        require_trusted_folder(str(base))
