"""``dovetail top`` against a small console on a real socket: one picture, JSON, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from cli.top.client import TOKEN, VARIABLE
from shared.errors import DovetailError
from tests.cli.top.small_console import (
    CLUSTER,
    DECISIONS,
    Answer,
    document,
    refused,
    serving,
)
from tests.support.network.status_server import free_port


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stack, no token, no colours."""
    for name in (VARIABLE, TOKEN, "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOVETAIL_DIRECTORY", str(tmp_path))


def top(url: str, *words: str, token: str = "") -> Result:
    return CliRunner().invoke(commands, ["top", *words], env={VARIABLE: url, TOKEN: token})


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_without_a_terminal_one_picture_is_printed(words: tuple[str, ...]) -> None:
    with serving(document(CLUSTER)) as console:
        done = top(console.url, *words)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("local  2 nodes  1 pod  1 pending  $0.2000/h  2025-11-24T16:00:00Z")
    assert lines[1] == "1 pod pending"
    assert sum("m5.large" in line for line in lines) == 2
    assert "\x1b" not in done.stdout
    assert console.seen == [("/api/cluster", "", "")]


def test_nodes_are_grouped_by_what_is_asked_for() -> None:
    with serving(document(CLUSTER)) as console:
        printed = top(console.url, "--by", "zone").stdout
    assert "us-west-2a  1 node" in printed
    assert "us-west-2b  1 node" in printed


def test_another_view_is_printed_below_the_totals() -> None:
    with serving(document(CLUSTER)) as console:
        console.reports = {"decisions": document(DECISIONS)}
        lines = top(console.url, "--view", "decisions").stdout.splitlines()
        body = top(console.url, "--view", "decisions", "-o", "json").stdout
        console.reports = {"decisions": document({"decisions": 3})}
        wrong = top(console.url, "--view", "decisions")
    assert lines[0].startswith("local  2 nodes")
    assert "bought for 3 pods" in lines[1]
    assert json.loads(body) == DECISIONS
    assert isinstance(wrong.exception, DovetailError)


def test_programs_get_the_snapshot_as_it_is() -> None:
    body = CLUSTER | {"unknown": "\x1b[2J"}
    with serving(document(body)) as console:
        done = top(f"{console.url}/", "-o", "json")
    assert json.loads(done.stdout) == body
    assert "\x1b" not in done.stdout


def test_the_token_is_sent() -> None:
    with serving(document(CLUSTER)) as console:
        assert top(console.url, token="secret\n").exit_code == 0
    assert console.seen == [("/api/cluster", "", "Bearer secret")]


@pytest.mark.parametrize(
    ("answer", "token", "said"),
    [
        (refused(401, "who are you?"), "", r"who are you\?; set DOVETAIL_CONSOLE_TOKEN to a token"),
        (refused(401), "old", "set DOVETAIL_CONSOLE_TOKEN to another token"),
        (refused(403, "not you"), "x", "not you; set DOVETAIL_CONSOLE_TOKEN to a token with the right"),
        (refused(503, "no mirror\x1b[2J"), "", r"no mirror\\x1b\[2J; see the console's log"),
        (refused(404), "", "is not a console of Dovetail: it answered 404; set DOVETAIL_CONSOLE_URL"),
        (Answer(b"<html>", 200, "text/html"), "", "it sends text/html; set DOVETAIL_CONSOLE_URL"),
        (Answer(b"{", 200, "application/json"), "", "answer is not understood"),
        (document({"nodes": 7}), "", "answer is not understood"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [("--once",), ("-o", "json")])
def test_each_refusal_names_the_next_step(
    answer: Answer, token: str, said: str, words: tuple[str, ...]
) -> None:
    with serving(answer) as console:
        done = top(console.url, *words, token=token)
    assert done.exit_code == 1
    with pytest.raises(DovetailError, match=said):
        raise done.exception or AssertionError


def test_the_token_does_not_follow_to_another_address() -> None:
    with serving(document(CLUSTER)) as other:
        away = Answer(b"", 302, headers={"Location": f"{other.url}/api/cluster"})
        with serving(away) as console:
            done = top(console.url, token="secret")
    assert "answered 302" in str(done.exception)
    assert other.seen == []


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [
        ("", "", "`dovetail up --detach`, or in a cluster: kubectl port-forward"),
        ("console:8080", "", "DOVETAIL_CONSOLE_URL is not a URL"),
        ("ftp://x", "", "DOVETAIL_CONSOLE_URL is not a URL"),
        ("http://me:word@x", "", "without a password"),
        ("http://x:99999999", "", "DOVETAIL_CONSOLE_URL is not a URL"),
        ("http://x", "a\nb", "DOVETAIL_CONSOLE_TOKEN has characters"),
    ],
)
def test_a_wrong_setting_is_named(url: str, token: str, said: str) -> None:
    done = top(url, token=token)
    assert done.exit_code == 1
    assert said in str(done.exception)


def test_a_console_that_does_not_answer_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = top(url)
    assert done.exit_code == 1
    assert f"the console does not answer at {url} (" in str(done.exception)
    assert "`dovetail status` shows what runs" in str(done.exception)
