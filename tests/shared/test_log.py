"""Log lines as they are written (OPS-20)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from shared import log as logs
from shared.distribution.version import COMMIT_VARIABLE


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    """Put back what the other tests log by."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def written(**keys: Any) -> dict[str, Any]:
    stream = io.StringIO()
    logs.configure("info", stream=stream)
    logs.get_logger("services.launcher").info("launched nodeclaim", **keys)
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


def test_a_line_names_its_level_time_logger_and_message() -> None:
    """OPS-20: log lines."""
    line = written(zone="us-west-2a")
    assert line["level"] == "INFO"
    assert line["logger"] == "services.launcher"
    assert line["message"] == "launched nodeclaim"
    assert line["zone"] == "us-west-2a"
    assert line["time"].endswith("Z")


@pytest.mark.parametrize(("commit", "shown"), [("2eb3530abcdef", "2eb3530"), ("", None)])
def test_a_build_that_knows_its_commit_says_so_on_every_line(
    monkeypatch: pytest.MonkeyPatch, commit: str, shown: str | None
) -> None:
    """OPS-20, ACC-14: seven characters."""
    monkeypatch.setenv(COMMIT_VARIABLE, commit)
    assert written().get("commit") == shown


def test_an_object_dump_does_not_fill_the_disk() -> None:
    """A value ends after 2,048 characters."""
    assert len(written(dump="x" * 100_000)["dump"]) == logs.TEXT_LIMIT + 1


ERRORS_ONLY = """
from shared.log import get_logger
logger = get_logger("a")
logger.debug("retrying")
logger.warning("slow")
logger.error("lost", part="b")
print("the answer")
"""


def test_a_command_that_configures_nothing_keeps_its_standard_output_for_its_answer() -> None:
    """`dovetail audit -o json` wrote lines about retries before its JSON."""
    done = subprocess.run(
        [sys.executable, "-c", ERRORS_ONLY], capture_output=True, text=True, check=True
    )
    assert done.stdout == "the answer\n"
    line = json.loads(done.stderr)
    assert (line["level"], line["message"], line["part"]) == ("ERROR", "lost", "b")
