"""The rehearsal gives back the process in which it ran. In a process of its own: importing it changes moto."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
LOOKS = """
import asyncio, gc, logging, os, time, uuid
from botocore import auth
from simulation import preparation
from simulation.runner.rehearsal import _kept, rehearse

def state():
    return (
        time.time, time.monotonic, os.urandom, uuid.uuid4, auth.datetime, dict(os.environ), gc.isenabled(),
        logging.root.manager.disable,
    )

before, begun = state(), time.time()
rehearse()
assert state() == before
assert not asyncio.all_tasks(_kept[0].loop), "every run would look through these tasks"
assert 0 <= time.time() - begun < 600
rehearsed = time.process_time()
rehearse()
assert time.process_time() - rehearsed < 0.1, "it ran again"
"""


def test_a_rehearsal_gives_the_process_back_and_happens_once() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOOKS], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
