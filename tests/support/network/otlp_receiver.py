"""A collector for tests: takes OTLP over HTTP and decodes the protobuf that arrives."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class Received:
    """One span, ids as hexadecimal text and times in seconds."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    attributes: dict[str, Any]
    start: float
    end: float
    failed: bool
    message: str


@dataclass
class Receiver:
    """``refuses``: answers 503 instead, which an exporter repeats."""

    url: str = ""
    spans: list[Received] = field(default_factory=list)
    refuses: bool = False
    requests: int = 0

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    async def take(self, request: web.Request) -> web.Response:
        self.requests += 1
        if self.refuses:
            return web.Response(status=503)
        assert request.content_type == PROTOBUF
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.spans += decoded(body)
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type=PROTOBUF)


def decoded(body: bytes) -> list[Received]:
    """The spans of one request. Raises google.protobuf's DecodeError for anything else."""
    message = ExportTraceServiceRequest()
    message.ParseFromString(body)
    return [
        _received(values(resource.resource.attributes)["service.name"], span)
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _received(service: str, span: Any) -> Received:
    return Received(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple(link.trace_id.hex() for link in span.links),
        values(span.attributes),
        span.start_time_unix_nano / 1e9,
        span.end_time_unix_nano / 1e9,
        span.status.code == 2,
        span.status.message,
    )


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as Python's values."""
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@asynccontextmanager
async def otlp_receiver() -> AsyncIterator[Receiver]:
    """A running one, on a free port of loopback."""
    receiver = Receiver()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/v1/traces", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    receiver.url = f"http://{host}:{port}"
    try:
        yield receiver
    finally:
        await runner.cleanup()
