"""The HTML representation of traces, profiles, explanations, time lines and reports."""

from __future__ import annotations

import base64
import re

import pytest

import fastdist
from fastdist import profiler
from fastdist.distributed.explain.explanation import Explanation
from fastdist.distributed.profiler import profile as profile_of_group
from fastdist.distributed.profiler.merged import TimeLine
from fastdist.distributed.rpc.agent import DebugInfo
from fastdist.instrumentation import notebook
from fastdist.profiler.events import EventList


def cells(html: str) -> list[str]:
    return re.findall(r"<t[hd]>(.*?)</t[hd]>", html)


def test_no_letter_of_a_text_is_read_as_html() -> None:
    assert notebook.table(["a"], [["<b>&'\""]]).count("&lt;b&gt;&amp;&#x27;&quot;") == 1


def test_a_frame_holds_a_page_that_sees_nothing_outside() -> None:
    frame = notebook.page('<p class="a">x</p>')
    assert 'sandbox="allow-scripts"' in frame
    assert 'srcdoc="&lt;p class=&quot;a&quot;&gt;x&lt;/p&gt;"' in frame


def test_a_trace_is_a_table_of_its_calls() -> None:
    shown = fastdist.trace(lambda x: x * x)(fastdist.ones(2))._repr_html_()
    assert cells(shown)[:4] == ["op", "inputs", "results", "site"]
    assert "mul" in cells(shown)


def test_a_profile_is_a_table_of_what_took_the_most_time() -> None:
    with profiler.profile() as p, profiler.record_function("<mine>"):
        pass
    assert cells(p._repr_html_() or "").count("&lt;mine&gt;") == 1
    assert cells(p.events()._repr_html_()).count("&lt;mine&gt;") == 1


def test_a_profile_of_all_workers_is_shown_once_it_has_ended() -> None:
    assert profile_of_group()._repr_html_() is None


def test_a_time_line_is_a_page_in_a_frame() -> None:
    shown = TimeLine(EventList(), {}, [], frozenset())._repr_html_()
    assert shown.startswith("<iframe ") and "&lt;canvas id=&quot;canvas&quot;" in shown


def test_an_explanation_is_its_picture_and_its_text() -> None:
    explanation = Explanation(5, "over", {0: "<w0>"}, [], [], None)
    shown = explanation._repr_html_()
    source = re.search(r"data:image/svg\+xml;base64,([^\"]+)", shown)
    assert source and base64.b64decode(source[1]).decode() == explanation.to_svg()
    assert "<pre>context 0:5: backward pass over, over 1 worker and 0 messages" in shown


@pytest.mark.parametrize("info", [{}, {"agent.peer.w1": "connected"}])
def test_debug_info_is_a_dictionary_and_a_table(info: dict[str, str]) -> None:
    shown = DebugInfo(info)
    assert shown == info
    assert cells(shown._repr_html_()) == ["name", "value", *sum(info.items(), ())]
