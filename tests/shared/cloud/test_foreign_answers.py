"""What AWS did not write is never read as an answer, whichever call it is for (R6): nobody knows what the call did."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel

from shared.cloud.client.answers.expected import EXPECTED
from shared.cloud.client.models import CompactFileLoader
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.errors import TransientError

pytestmark = pytest.mark.asyncio(loop_scope="module")

HTML = b"<html><body><h1>The proxy says hello</h1></body></html>"
CALLS = [(service, operation) for service, rows in EXPECTED.items() for operation in rows]
XML = {"ec2", "query"}
REQUEST_ID = "d0c0ffee-0000-4000-8000-000000000000"


@dataclass
class Wire:
    """Answers every request with ``status``, ``headers`` and ``body``; ``cut`` ends the connection before its end."""

    status: int = 200
    headers: tuple[str, ...] = ()
    body: bytes = b""
    cut: int = 0
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next((h for h in head.split("\r\n") if h.startswith("content-length:")), "x: 0")
        await reader.readexactly(int(length.split(":")[1]))
        sizes = f"Content-Length: {len(self.body) + self.cut}"
        lines = (f"HTTP/1.1 {self.status} X", sizes, "Connection: close", *self.headers)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + self.body)
        writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wire() -> AsyncIterator[Wire]:
    served = Wire()
    server = await asyncio.start_server(lambda r, w: served.serve(r, w), "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind(wire: Wire) -> AsyncIterator[Cloud]:
    """A connection on which ``wire`` answers."""
    connected = await Cloud.connect(
        region="us-west-2",
        endpoint_url=f"http://127.0.0.1:{wire.port}",
        clock=SystemClock(),
        random=Random(1),
        user_agent="dovetail-tests",
    )
    yield connected
    await connected.close()


@functools.cache
def service_model(service: str) -> ServiceModel:
    loader = Loader(file_loader=CompactFileLoader())
    return ServiceModel(loader.load_service_model(service, "service-2"), service)


def model_of(service: str, operation: str) -> OperationModel:
    return service_model(service).operation_model(operation)


def value_for(shape: Any) -> Any:
    """Any value that the service model takes: only what it requires."""
    if shape.type_name == "structure":
        return {name: value_for(shape.members[name]) for name in shape.required_members}
    if shape.type_name == "list":
        return [value_for(shape.member)]
    simple = {"string": "x" * max(shape.metadata.get("min", 1), 1), "boolean": True, "map": {}}
    if getattr(shape, "enum", None):
        return shape.enum[0]
    return simple.get(shape.type_name, 1)


def document(model: OperationModel, elements: str, name: str | None = None) -> bytes:
    """An XML answer with a request id and these elements."""
    root = f"{name or model.name}Response"
    if model.service_model.resolved_protocol == "ec2":
        text = f"<{root}><requestId>{REQUEST_ID}</requestId>{elements}</{root}>"
        return text.encode()
    wrapper = (model.output_shape.serialization if model.output_shape else {}).get("resultWrapper")
    inside = f"<{wrapper}>{elements}</{wrapper}>" if wrapper else elements
    metadata = f"<ResponseMetadata><RequestId>{REQUEST_ID}</RequestId></ResponseMetadata>"
    return f"<{root}>{inside}{metadata}</{root}>".encode()


def wrong_types(model: OperationModel) -> Iterator[bytes]:
    """The answer with each of its own elements of a wrong type, one by one."""
    members = model.output_shape.members if model.output_shape else {}
    for path in EXPECTED[model.service_model.service_name][model.name]:
        name = path.split(".")[0].removesuffix("[]")
        shape = members[name]
        if model.service_model.resolved_protocol not in XML:
            yield json.dumps({shape.serialization.get("name", name): 5}).encode()
        else:
            tag = shape.serialization.get("name", name)
            text = "" if shape.type_name == "string" else "five"
            yield document(model, f"<{tag}>{text}</{tag}>")


def bodies(model: OperationModel) -> Iterator[bytes]:
    """Whole HTTP answers with status 200 that are not AWS's."""
    yield HTML
    yield b"<!doctype html><p>not even XML"
    yield b'<?xml version="1.0"?><Response/>'
    yield b"[]"
    yield b"null"
    yield b'"a text"'
    yield b"\xff\xfe\x00"
    yield from wrong_types(model)
    if model.service_model.resolved_protocol in XML:
        yield b""
        yield document(model, "", "DescribeSomethingElse")
        yield document(model, "")[:-12]
        yield document(model, "").replace(REQUEST_ID.encode(), b"")
    else:
        yield b'{"QueueUrl": "http'
    declared = EXPECTED[model.service_model.service_name][model.name]
    if any("[]" not in path for path in declared):
        yield document(model, "") if model.service_model.resolved_protocol in XML else b"{}"


async def attempt(cloud: Cloud, service: str, model: OperationModel) -> None:
    calls = cloud._calls(service)
    shape = model.input_shape
    parameters = value_for(shape) if shape else {}
    await asyncio.wait_for(calls.write(_snake(model.name), **parameters), 30)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


@pytest.mark.slow
@pytest.mark.parametrize(("service", "operation"), CALLS)
async def test_what_aws_did_not_write_leaves_the_outcome_unknown(
    wire: Wire, behind: Cloud, service: str, operation: str
) -> None:
    """Pages of a proxy, other documents, missing and wrong elements; with the headers of AWS where that is worse."""
    model = model_of(service, operation)
    wire.status, wire.cut, wire.headers = 200, 0, (f"x-amzn-RequestId: {REQUEST_ID}",)
    for body in bodies(model):
        wire.body = body
        with pytest.raises(TransientError, match=operation):
            await attempt(behind, service, model)


@pytest.mark.slow
@pytest.mark.parametrize(("service", "operation"), CALLS)
async def test_what_is_cut_or_refused_on_the_way_leaves_the_outcome_unknown(
    wire: Wire, behind: Cloud, service: str, operation: str
) -> None:
    """A closed connection, an answer without AWS's request id, and a proxy's own refusals."""
    model = model_of(service, operation)
    cases = itertools.chain(
        [(200, b"", 0), (200, b"{}", 0), (200, b"{}", 10), (200, document(model, ""), 10)],
        ((status, HTML, 0) for status in (204, 302, 400, 403, 404, 407, 500, 502, 503, 504)),
        [(403, b"", 0), (404, b'{"message": "no route"}', 0)],
    )
    for wire.status, wire.body, wire.cut in cases:
        wire.headers = ()
        if wire.status == 200 and not wire.cut and model.service_model.resolved_protocol in XML:
            continue
        with pytest.raises(TransientError, match=operation):
            await attempt(behind, service, model)


async def test_the_page_of_a_proxy_is_said_to_be_one(wire: Wire, behind: Cloud) -> None:
    wire.status, wire.cut, wire.body, wire.headers = 200, 0, HTML, ()
    with pytest.raises(TransientError, match=r"root element is html.*prox"):
        await attempt(behind, "ec2", model_of("ec2", "CreateFleet"))


async def test_no_two_services_have_an_operation_of_one_name() -> None:
    """An answer is checked by the name of its operation alone."""
    names = [operation for _, operation in CALLS]
    assert len(names) == len(set(names))
