"""The WSGI application (control endpoint, pricing, faults, recording, and moto behind them) and its threaded server.

EC2 requests run one at a time under the inventory's lock, because moto's EC2 backend is not thread-safe. Other services
run concurrently: an SQS long poll must not block other requests. Each connection has its own thread.
"""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from local.aws.capacity import zonal_shifts
from local.aws.catalogue import pricing
from local.aws.control.endpoint import PREFIX, Control
from local.aws.ec2.refusal import RequestRefused
from local.aws.ec2.xml_answers import REQUEST_ID
from local.aws.emulator import Emulator
from local.aws.http import protocol
from local.aws.http.faults import DROPPED, Fault
from local.aws.http.recorder import Call
from local.aws.iam.enforcement import Enforcement
from local.aws.interruptions import imds
from local.aws.moto import patches, speed
from local.aws.moto.services import answer_of_moto
from shared.log import get_logger

log = get_logger(__name__)

StartResponse = Callable[..., Any]
JSON = "application/json"
IDLE_CONNECTION_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def send(self, start_response: StartResponse) -> list[bytes]:
        """Send the answer with its exact length, which keeps the connection open."""
        kept = [
            (k, v) for k, v in self.headers if k.lower() not in {"content-length", "connection"}
        ]
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "Fault"
        start_response(f"{self.status} {phrase}", [*kept, ("Content-Length", str(len(self.body)))])
        return [self.body]


@dataclass(frozen=True, slots=True)
class Handled:
    """A request that was carried out, and its answer, which a server sends after ``delay_seconds``.

    ``action`` is empty for a request that is no call of AWS; ``code`` is the AWS error code, None for a success. An
    answer with status DROPPED is not sent: the server closes the connection.
    """

    answer: Answer
    action: str = ""
    code: str | None = None
    delay_seconds: float = 0.0


class Application:
    """Routes one request."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._control = Control(emulator)
        self._imds = imds.Imds(emulator.inventory, emulator.notices, emulator.clock)
        self._enforcement = Enforcement(emulator)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """The WSGI entry point; answers every request."""
        handled = self.handle(environ)
        self._emulator.faults.hold(handled.delay_seconds)
        if handled.answer.status == DROPPED:
            _drop(environ)
        return handled.answer.send(start_response)

    def handle(self, environ: dict[str, Any]) -> Handled:
        """Carry out one request. It never waits."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > protocol.BODY_LIMIT:
            return Handled(_json(413, {"error": "the body is too long"}))
        body = environ["wsgi.input"].read(length) if length else b""
        environ["wsgi.input"] = io.BytesIO(body)
        path = environ.get("PATH_INFO", "")
        if path.startswith(imds.PREFIX):
            return Handled(self._answer_imds(environ, path))
        if path.startswith(PREFIX):
            return Handled(self._answer_control(environ, body))
        return self._answer_aws(environ, body)

    def _answer_imds(self, environ: dict[str, Any], path: str) -> Answer:
        rest = path.removeprefix(imds.PREFIX)
        status, text = self._imds.answer(environ["REQUEST_METHOD"], rest, environ)
        return Answer(status, [("Content-Type", "text/plain")], text.encode())

    def _answer_control(self, environ: dict[str, Any], body: bytes) -> Answer:
        query = dict(parse_qsl(environ.get("QUERY_STRING", "")))
        status, text = self._control.answer(
            environ["REQUEST_METHOD"], environ["PATH_INFO"], query, body
        )
        return Answer(status, [("Content-Type", JSON)], text)

    def _answer_aws(self, environ: dict[str, Any], body: bytes) -> Handled:
        request = protocol.read(environ, body, self._emulator.settings.region)
        fault = self._emulator.faults.take(request.action, request.service)
        answer = self._answer_with_fault(request, environ, fault)
        code = _code(answer)
        self._record(request, environ, answer.status, code)
        return Handled(answer, request.action, code, 0.0 if fault is None else fault.delay_seconds)

    def _answer_with_fault(
        self, request: protocol.Request, environ: dict[str, Any], fault: Fault | None
    ) -> Answer:
        if fault is not None and fault.mode == "before":
            return _fault_answer(request, fault)
        done = self._work(request, environ)
        return done if fault is None or fault.mode == "slow" else _fault_answer(request, fault)

    def _work(self, request: protocol.Request, environ: dict[str, Any]) -> Answer:
        denied = self._enforcement.denial(request, environ)
        if denied is not None:
            status, content_type, body = denied
            return Answer(status, [("Content-Type", content_type)], body)
        if str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith(pricing.TARGET_PREFIX):
            return self._answer_pricing(request)
        path = str(environ.get("PATH_INFO", ""))
        if path.startswith(zonal_shifts.PATH):
            return _of_aws(self._emulator.zonal_shifts.resource(path), JSON)
        if answer := self._answer_access(request, environ, path):
            return answer
        serial = self._emulator.inventory.lock if request.service == "ec2" else nullcontext()
        with serial:
            return self._answer_moto(request, environ)

    def _answer_access(
        self, request: protocol.Request, environ: dict[str, Any], path: str
    ) -> Answer | None:
        query, body = str(environ.get("QUERY_STRING", "")), request.json_parameters()
        found = self._emulator.access.answer(
            environ["REQUEST_METHOD"], path, query, body, request.region
        )
        return None if found is None else _of_aws(found[1], JSON, found[0])

    def _answer_pricing(self, request: protocol.Request) -> Answer:
        emulator = self._emulator
        try:
            if request.action != "GetProducts":
                raise RequestRefused(
                    "InvalidParameterException",
                    f"{request.action}: the emulator has GetProducts only",
                )
            products = pricing.get_products(
                emulator.catalogue, emulator.prices, request.region, request.json_parameters()
            )
        except RequestRefused as refused:
            content_type, body = protocol.error_answer(request, refused.code, refused.message)
            return Answer(400, [("Content-Type", content_type)], body)
        return _of_aws(products, "application/x-amz-json-1.1")

    def _answer_moto(self, request: protocol.Request, environ: dict[str, Any]) -> Answer:
        try:
            response = answer_of_moto(environ)
        except Exception as error:
            log.exception("moto failed", service=request.service, action=request.action)
            content_type, body = protocol.error_answer(request, "InternalError", repr(error))
            return Answer(500, [("Content-Type", content_type)], body)
        return Answer(response.status_code, [*response.headers], response.get_data())

    def _record(
        self, request: protocol.Request, environ: dict[str, Any], status: int, code: str | None
    ) -> None:
        call = Call(
            at=self._emulator.clock.now(),
            service=request.service,
            action=request.action,
            parameters=_parameters(request, environ),
            code=code,
            status=status,
        )
        self._emulator.recorder.record(call)


def _code(answer: Answer) -> str | None:
    if answer.status == DROPPED:
        return "ConnectionClosed"
    return protocol.error_code(answer.status, answer.body)


def _parameters(request: protocol.Request, environ: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the client sent them: API names where a parser ran, flat query names otherwise."""
    parsed = environ.get(patches.PARAMETERS_KEY)
    if parsed is None and request.service == "ec2":
        parsed = patches.parse_ec2(request.action, request.body)
    if parsed is not None:
        plain: dict[str, Any] = json.loads(json.dumps(parsed, default=str))
        return plain
    return request.json_parameters() if request.json_protocol else dict(request.query_parameters())


def _fault_answer(request: protocol.Request, fault: Fault) -> Answer:
    if fault.body is not None:
        return Answer(fault.status, [("Content-Type", "text/html")], fault.body.encode())
    content_type, body = protocol.error_answer(request, fault.code, fault.message)
    return Answer(fault.status, [("Content-Type", content_type)], body)


def _json(status: int, value: Any) -> Answer:
    return Answer(status, [("Content-Type", JSON)], json.dumps(value).encode())


def _of_aws(value: Any, content_type: str, status: int = 200) -> Answer:
    """The answer of a JSON service; the request id shows clients that AWS wrote it."""
    headers = [("Content-Type", content_type), ("x-amzn-RequestId", REQUEST_ID)]
    return Answer(status, headers, json.dumps(value).encode())


def _drop(environ: dict[str, Any]) -> None:
    """Close the connection without an answer; werkzeug treats a ConnectionError as closed by the client."""
    connection = environ.get("werkzeug.socket")
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError("a fault closes this connection")


class RequestHandler(MotoRequestHandler):  # type: ignore[misc]
    """HTTP/1.1 with kept connections, no access log, and no wait for a full packet."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_CONNECTION_SECONDS
    disable_nagle_algorithm = True

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Write no log line; the recorder keeps the calls."""


def build_server(emulator: Emulator) -> BaseWSGIServer:
    """A bound server that does not serve yet; its ``port`` is the real port."""
    patches.install(emulator)
    # moto stamps its messages with real time, without the steps of the emulator's clock.
    speed.install(emulator.clock.real)
    settings = emulator.settings
    return make_server(
        settings.host,
        settings.port,
        Application(emulator),
        threaded=True,
        request_handler=RequestHandler,
    )
