"""Our planner over HTTP for the adapter: ``POST /simulate`` without a stack around it, and what was asked on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from services.scheduler.status.simulate import PATH, Request, answer_request

HOST = "127.0.0.1"
NAME = "X-Specification"
"""Header: the specification that asks."""
QUERY = {"policy": "FewestNodes", "effort": "0"}
"""Karpenter's packing; the comparison with LowestCost, which nobody reads here, takes no effort."""


class _Questions:
    """Answers one at a time. ``folder``: gets a file for each."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._one = threading.Lock()
        self._count = 0

    def answer(self, name: str, body: bytes) -> tuple[int, bytes]:
        with self._one:
            found = answer_request(Request(body, QUERY))
            self._count += 1
            if self.folder is not None:
                kept = _list(name, orjson.loads(body), orjson.loads(found.body))
                path = self.folder / f"{self._count:05d}.json"
                path.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
        return found.status, found.body


def _list(name: str, question: dict[str, Any], answer: Any) -> dict[str, Any]:
    """The question as a List, which ``dovetail simulate`` reads too."""
    items = question.pop("objects")
    told = {"specification": name, "options": question, "answer": answer}
    return {"apiVersion": "v1", "kind": "List", **told, "items": items}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, questions: _Questions, *rest: Any) -> None:
        self.questions = questions
        super().__init__(*rest)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = self.questions.answer(self.headers.get(NAME, ""), body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Thousands of requests: none is printed."""


@contextmanager
def planner(folder: Path | None = None) -> Iterator[str]:
    """The address of our planner. ``folder``: where each question is written with its answer."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer((HOST, 0), partial(_Handler, _Questions(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}{PATH}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
