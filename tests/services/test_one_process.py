"""``python -m services``: all services in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_its_help_names_every_service_and_its_settings() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services", "--help"],
        cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("watcher", "scheduler", "launcher", "terminator", "interruption"):
        assert name in done.stdout
    assert "INTERRUPTION_QUEUE" in done.stdout
