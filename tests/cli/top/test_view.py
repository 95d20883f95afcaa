"""The picture on terminals of any size: what fits, what is on top, what is counted. No text harms it."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from cli.top.cells import age, bar, cores, dollars, mebibytes, percent, safe
from cli.top.cluster.rows import By
from cli.top.cluster.shares import cut, shares, shares_in_turn
from cli.top.events import snapshot_of
from cli.top.state import Lost, Received, received
from cli.top.view import Screen, lines_of
from tests.cli.top.small_console import AT, Document, node, pod, snapshot

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;x\x07\x1b[2J\u202e\r\n\t[red]\u0301👩\u200d💻\ufe0f漢"


def known(nodes: list[Document], pods: list[Document] | None = None, **changes: Any) -> Received:
    body = json.dumps(snapshot(nodes, pods or [], **changes)).encode()
    return received(Received(), snapshot_of(body), now=0.0)


def shown(
    state: Received, width: int = 200, height: int = 60, by: By = "pool", now: float = 0.0
) -> list[str]:
    return [line.plain for line in lines_of(state, Screen(width, height, live=True), by, now)]


def text_of(state: Received, **how: Any) -> str:
    return "\n".join(shown(state, **how))


def printed(lines: list[Text], width: int, height: int) -> list[str]:
    """What a terminal of this size gets, without its colours."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, height=height, force_terminal=True, color_system="truecolor"
    )
    console.print(Group(*lines))
    return COLOURS.sub("", file.getvalue()).splitlines()


LARGE = known(
    [
        node(f"{number:02}", pool=f"pool-{number % 3}", state="draining" if number % 7 == 0 else "ready",
             marks=["empty"] if number % 5 == 0 else [], why="nothing runs on it", zone=f"us-west-2{'abc'[number % 3]}")
        for number in range(60)
    ],
    [*(pod(f"p{number}", node=node(f"{number:02}")["id"], state="running") for number in range(60)),
     *(pod(f"waits-{number:02}") for number in range(20))],
    trusted={"ok": False, "reason": "the copy of the cluster is 40 s old"},
)  # fmt: skip


@pytest.mark.parametrize("by", ["pool", "zone", "type"])
@pytest.mark.parametrize(
    ("width", "height"),
    [(1, 1), (8, 3), (20, 5), (31, 10), (40, 12), (60, 20), (80, 24), (120, 40), (160, 50), (300, 90)],
)  # fmt: skip
def test_it_fits_a_terminal_of_any_size(width: int, height: int, by: By) -> None:
    lines = lines_of(LARGE, Screen(width, height, live=True), by, 0.0)
    on_terminal = printed(lines, width, height)
    assert len(on_terminal) == len(lines) <= height
    assert max(map(cell_len, on_terminal)) <= width


def test_a_large_terminal_is_used_and_a_print_has_no_end() -> None:
    assert len(shown(LARGE, height=50)) == 50
    whole = [line.plain for line in lines_of(LARGE, Screen(200), "pool", 0.0)]
    assert sum("m5.large" in line for line in whole) == 60
    assert "more" not in "\n".join(whole)


def test_what_has_no_room_is_counted() -> None:
    """In each list the shown ones and the counted ones are all there are."""
    lines = shown(LARGE, width=120, height=40)
    counted = {
        noun: sum(int(number) for number in re.findall(rf"and (\d+) more {noun}", "\n".join(lines)))
        for noun in ("node", "pod")
    }
    assert counted["node"] + sum("m5.large" in line for line in lines) == 60
    assert counted["pod"] + sum("shop/waits" in line for line in lines) == 20


def test_more_groups_than_lines_are_counted() -> None:
    many = known([node(str(number), pool=f"pool-{number:02}") for number in range(30)])
    lines = shown(many, height=12)
    assert lines[-1] == "  and 22 more pools"
    assert sum("1 node  $" in line for line in lines) == 8


def test_pending_pods_come_first_and_the_nodes_keep_their_lines() -> None:
    lines = shown(LARGE, height=30)
    heading = lines.index("20 pods pending")
    assert heading < next(at for at, line in enumerate(lines) if "NAME" in line)
    assert sum("shop/waits" in line for line in lines) < 10
    assert "no node has room" in lines[heading + 1]


def test_a_pod_without_room_is_above_one_that_has_a_node() -> None:
    pods = [pod("b", waits="nominated", since=AT - 900), pod("a", since=AT - 5), pod("c", waits="")]
    text = text_of(known([], pods))
    assert [text.index(f"shop/{name}") for name in "acb"] == sorted(
        text.index(f"shop/{name}") for name in "acb"
    )


def test_a_pending_pod_says_why_and_what_would_place_it() -> None:
    """In the words of the page: the cause, without what was looked for."""
    reason = 'incompatible with nodepool "a", overhead={} (no instance type has enough resources)'
    pods = [pod("a", verdict=reason, change="lower the request for cpu")]
    text = text_of(known([], pods))
    assert "no instance type has enough resources  → lower the request for cpu" in text
    assert "overhead" not in text
    assert "taint x" in text_of(known([], [pod("a", verdict="did not tolerate taint x")]))


CHANGING = [
    node("1", state="ready"),
    node("2", state="ready", marks=["drifted"]),
    node("3", state="launching", name=""),
    node("4", state="draining"),
    node("5", state="ready", marks=["interrupted"]),
    node("6", state="ready", created=AT - 1),
]


def test_what_changes_is_on_top() -> None:
    names = re.findall(r"^  (\S+) +m5", text_of(known(CHANGING)), re.MULTILINE)
    assert names == ["ip-5", "ip-4", "default-3", "ip-2", "ip-6", "ip-1"]


def test_changing_nodes_of_all_groups_are_shown_before_quiet_ones() -> None:
    nodes = [node(f"{number:02}", pool="big") for number in range(40)]
    nodes += [
        node("x1", pool="small", state="draining"),
        node("x2", pool="small", state="draining"),
    ]
    text = text_of(known(nodes), height=9)
    assert "ip-x1" in text
    assert "ip-x2" in text
    assert text.index("small  2 nodes") < text.index("big  40 nodes")
    assert "more nodes" in text


@pytest.mark.parametrize(
    ("by", "heading", "column"),
    [("pool", "default  1 node", "ZONE"), ("zone", "us-west-2a  1 node", "POOL"), ("type", "m5.large  1 node", "POOL")],
)  # fmt: skip
def test_nodes_are_grouped_and_the_pool_stays_visible(by: By, heading: str, column: str) -> None:
    lines = shown(known([node()]), by=by)
    assert any(line.startswith(heading) for line in lines)
    assert column in lines[2]


def test_a_row_has_what_its_pods_request() -> None:
    running = [pod(str(number), node=node()["id"], state="running", cpu=400) for number in range(3)]
    row = shown(known([node(why="it is empty", marks=["empty"])], running))[4]
    assert " ".join(row.split()) == (
        "ip-a m5.large us-west-2a spot 0.1000 5m ready empty ██████░░░░ 60% ████░░░░░░ 37% "
        "█░░░░░░░░░ 3/29 it is empty"
    )


def test_a_deadline_is_counted_down_by_the_clock_of_the_console() -> None:
    state = known([node(state="draining", deadline=AT + 100, marks=["interrupted"])])
    assert "draining ends in 93s interrupted" in text_of(state, now=7.0)


def test_the_header_has_totals_connection_and_trust() -> None:
    nodes = [node("a"), node("b", price=None)]
    assert shown(known(nodes, [pod()]))[0] == (
        "local  2 nodes  1 pod  1 pending  $0.1000/h + 1 unknown  live  trusted  q ends"
    )


def test_a_picture_that_cannot_be_trusted_says_why() -> None:
    text = text_of(LARGE)
    assert "not trusted" in text
    assert "Not trusted: the copy of the cluster is 40 s old." in text


def test_the_header_says_how_old_the_picture_may_be() -> None:
    """Watches are silent while nothing changes, and where the API server stands still."""
    silent = known([node()], trusted={"ok": True, "heard": 70})
    assert "live  trusted  as of 70s ago  q ends" in shown(silent)[0]


def test_a_reason_that_is_a_question_ends_as_one() -> None:
    asking = known([node()], trusted={"ok": False, "reason": "is the watcher running?"})
    assert "Not trusted: is the watcher running?\n" in text_of(asking) + "\n"


def test_silence_makes_a_picture_old() -> None:
    assert "live" in shown(LARGE, now=15.0)[0]
    late = text_of(LARGE, now=16.5)
    assert "old picture" in late
    assert "The picture is 16 s old." in late


def test_a_lost_connection_says_why_and_when_it_is_tried_again() -> None:
    text = text_of(received(LARGE, Lost("nobody\x1b[2J", 4.0), now=1.0), now=2.0)
    assert "not connected" in text
    assert "No connection: nobody\\x1b[2J; next attempt in 3 s." in text


def test_before_the_first_message_it_says_what_it_waits_for() -> None:
    assert shown(Received()) == ["waits for the console"]
    assert shown(Received(), width=9) == ["waits fo…"]


def hostile_cluster(text: str) -> Received:
    bad_node = node(text, name=text, machine=text, pool=text, type=text, zone=text, state=text,
                    capacityType=text, marks=[text, text], why=text, deadline=AT)  # fmt: skip
    bad_pod = pod(text, name=text, owner=text, waits=text)
    trust = {"ok": False, "reason": text}
    return known([bad_node], [bad_pod], cluster=text, version=text, trusted=trust)


@given(
    st.text() | st.just(HOSTILE) | st.just(HOSTILE * 200), st.integers(1, 200), st.integers(1, 40)
)
def test_hostile_text_is_printed_harmless(text: str, width: int, height: int) -> None:
    state = hostile_cluster(text.encode(errors="replace").decode())
    lines = lines_of(state, Screen(width, height, live=True), "pool", 0.0)
    on_terminal = printed(lines, width, height)
    assert len(on_terminal) == len(lines) <= height
    for line in on_terminal:
        assert line.isprintable()
        assert cell_len(line) == sum(map(cell_len, line)) <= width


def test_brackets_are_text_and_long_texts_are_cut() -> None:
    assert "[red]" in text_of(hostile_cluster("[red]"))
    assert len(safe("x" * 10_000)) < 1_000
    assert safe("a\u0301\U0001f469") == "a\\u0301\\U0001f469"


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(0, 100))
def test_lines_are_shared_out_in_full_and_fairly(wants: list[int], room: int) -> None:
    given_lines = shares(wants, room)
    assert sum(given_lines) == min(sum(wants), room)
    assert all(got <= want for got, want in zip(given_lines, wants, strict=True))
    short = [got for got, want in zip(given_lines, wants, strict=True) if got < want]
    assert not short or max(given_lines) - min(short) <= 1


def test_the_first_wants_are_served_before_the_others() -> None:
    assert shares_in_turn([0, 3], [9, 9], 4) == [1, 3]
    assert [cut(3, 3), cut(4, 3), cut(4, 0)] == [(3, 0), (2, 2), (0, 4)]


def test_amounts_are_short() -> None:
    ages = [age(seconds) for seconds in (-5, 97, 300, 12_000, 400_000)]
    assert ages == ["0s", "97s", "5m", "3h20m", "4d"]
    assert [cores(250), cores(1_500), cores(4_000)] == ["250m", "1.5", "4"]
    assert [mebibytes(2**28), mebibytes(3 * 2**29)] == ["256Mi", "1.5Gi"]
    assert [dollars(None), dollars(0.1)] == ["?", "0.1000"]


@pytest.mark.parametrize(
    ("used", "allocatable", "drawn", "said"),
    [(0, 0, "░░░░", "-"), (1, 2, "██░░", "50%"), (9, 2, "████", "450%"), (-9, 2, "░░░░", "-450%")],
)
def test_a_bar_has_its_length_whatever_the_cluster_says(
    used: int, allocatable: int, drawn: str, said: str
) -> None:
    assert bar(used, allocatable, 4).plain == drawn
    assert percent(used, allocatable).plain == said
