"""The emulator as a process: help, wrong settings, the URL, a quick end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.emulator import (
    REPOSITORY,
    start_emulator,
    stop_emulator,
    wait_for_url,
)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.aws", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_every_setting() -> None:
    answer = run("--help")
    assert answer.returncode == 0
    for name in ("AWS_EMULATOR_PORT", "CLUSTER_NAME", "INSTANCE_PENDING_SECONDS"):
        assert name in answer.stdout


def test_a_wrong_setting_is_named() -> None:
    answer = run(AWS_EMULATOR_PORT="99999")
    assert answer.returncode != 0
    assert "AWS_EMULATOR_PORT" in answer.stderr


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    processes: list[Any] = []

    def start(**settings: str) -> Any:
        url_file = tmp_path / f"url-{len(processes)}"
        process = start_emulator(url_file, settings)
        processes.append(process)
        return process, wait_for_url(process, url_file)

    yield start
    for process in processes:
        stop_emulator(process)


@pytest.mark.slow
def test_sigterm_ends_the_process(started: Callable[..., Any]) -> None:
    process, url = started()
    assert url.startswith("http://127.0.0.1:")
    process.terminate()
    assert process.wait(30) == 0
