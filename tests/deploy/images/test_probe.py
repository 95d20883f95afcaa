"""The health check of the images, against a real server."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

PROBE = Path(__file__).resolve().parents[3] / "release" / "image" / "probe.py"


class Answers(http.server.BaseHTTPRequestHandler):
    """200 for /readyz, 503 for everything else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def probed(*words: str, **environment: str) -> int:
    command = [sys.executable, "-IS", str(PROBE), *words]
    done = subprocess.run(
        command, env=os.environ | environment, check=False, capture_output=True, timeout=30
    )
    return done.returncode


def test_it_tells_ready_from_not_ready_and_from_nobody(port: int) -> None:
    assert probed("/readyz", str(port)) == 0
    assert probed("/readyz", STATUS_PORT=str(port)) == 0
    assert probed("/other", str(port)) == 1
    assert probed("/readyz", "9") == 1
