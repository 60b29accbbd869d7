"""The site builds without a warning, loads nothing from other hosts, and has no broken link."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.site, pytest.mark.timeout(400)]
# By tag, the attribute whose URL a browser fetches; and the rel= values of links that it ignores.
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
NOT_FETCHED = {"canonical", "next", "prev"}


class Page(HTMLParser):
    """The ids of a page, its links, and the files that a browser fetches for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := given.get(name)))
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)
        address = given.get(FETCHED.get(tag, ""))
        if address and given.get("rel") not in NOT_FETCHED:
            self.fetched.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--strict", "--quiet", "-f", "docs/mkdocs.yml", "-d", folder]
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_pages_of_the_repository_and_of_the_reference_are_there(pages: dict[Path, Page]) -> None:
    names = {path.name for path in pages}
    assert {"index.html", "start.html", "failures.html", "rpc.html", "ops.reduce.html"} <= names
    ids = {name for page in pages.values() for name in page.ids}
    assert {"fastdist.sum", "fastdist.distributed.rpc.api.rpc_sync"} <= ids


def test_nothing_comes_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    foreign = {one for page in pages.values() for one in page.fetched if "//" in one}
    assert foreign == set()
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert "url(http" not in text and "@import" not in text, style


def test_links_lead_to_pages_and_to_places_on_them(site: Path, pages: dict[Path, Page]) -> None:
    broken = [f"{path.relative_to(site)}: {link}" for path, link in lost_links(site, pages)]
    assert broken == []


def lost_links(site: Path, pages: dict[Path, Page]) -> Iterator[tuple[Path, str]]:
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are relative to the root of the host
        for link in page.links:
            name, _, anchor = link.partition("#")
            if ":" in name:
                continue
            target = (path.parent / unquote(name)).resolve() if name else path
            if not target.exists() or (
                anchor and target in pages and unquote(anchor) not in pages[target].ids
            ):
                yield path, link
