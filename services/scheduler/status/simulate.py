"""``POST /simulate``: what the planner would do with the objects in the body.

Never touches the cluster. One request at a time, in a process of its own that yields to this one, with bounds on its
time and memory: the rounds that buy never wait for it. A second request gets 429.

What may go wrong: a body that is no JSON (400), too large (413) or too many objects (413), options that nobody knows
(400), nothing usable among the objects (422), more time or memory than there is (503). Redis without an answer leaves
the bundled catalogue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shared.cloud.catalogue.bundled import BUNDLED_REGION, bundled_catalogue
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import Catalogue, decode_catalogue, encode_catalogue
from shared.errors import ConfigurationError, DovetailError
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource
from shared.runtime.child import Bounds, ChildFailed, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.objects import flattened
from shared.simulation.options import Options, read_options
from shared.simulation.simulate import Simulation, simulate

log = get_logger(__name__)

PATH = "/simulate"
BODY = {
    "type": "object",
    "properties": {"objects": {"type": "array", "items": {"type": "object"}}},
}
MOST_BYTES = 16 * 1024 * 1024
MOST_OBJECTS = 20_000
MOST_PODS = 20_000
"""Replicas included: some seconds of CPU."""
MOST_EFFORT = 5_000
MOST_ANSWER_BYTES = 32 * 1024 * 1024
"""The answer passes through the scheduler, whose RAM is for the cluster."""
BOUNDS = Bounds("the simulation", seconds=120.0, memory_bytes=640 << 20, niceness=10)
UNUSABLE = (
    "the planner uses none of these objects; send pods or workloads, and pools with their classes"
)
ENVELOPE = ("objects", "items")
"""Where the objects are in a body that is neither a list nor an object of Kubernetes."""


@dataclass(frozen=True)
class Request:
    """What the simulating process is given. ``catalogue``: that of the cluster, encoded; empty: not known yet."""

    body: bytes
    query: Mapping[str, str]
    catalogue: bytes = b""


class Refused(Exception):
    """The request as it is cannot be answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Simulator:
    """Answers one request at a time."""

    catalogues: CatalogueSource
    bounds: Bounds = BOUNDS
    _busy: bool = field(default=False, init=False)

    async def answer(self, body: bytes, query: Mapping[str, str]) -> Answer:
        """The answer to one request. ``query``: the options of ``dovetail simulate``, by the same names."""
        if self._busy:
            return json_answer(429, {"error": "another simulation runs; try again when it is done"})
        self._busy = True
        try:
            request = Request(body, query, await self._held())
            return await in_child(answer_request, request, self.bounds)
        except ChildFailed as error:
            text = f"{error.message}; send fewer objects, or use dovetail simulate"
            return json_answer(503, {"error": text})
        finally:
            self._busy = False

    async def _held(self) -> bytes:
        try:
            held = await self.catalogues.get()
        except DovetailError as error:
            log.warning("simulating with the bundled catalogue", error=error.message)
            return b""
        return await asyncio.to_thread(encode_catalogue, held) if held else b""


def answer_request(request: Request) -> Answer:
    """The body of the simulating process."""
    try:
        return _simulated(request)
    except Refused as refused:
        return json_answer(refused.status, {"error": refused.message})
    except ConfigurationError as error:
        return json_answer(400, {"error": error.message})


def _simulated(request: Request) -> Answer:
    documents, fields = read_body(request.body)
    options = read_options({**fields, **request.query})
    if options.settings.effort > MOST_EFFORT:
        raise Refused(400, f"effort must be at most {MOST_EFFORT} here")
    held = decode_catalogue(request.catalogue) if request.catalogue else None
    found = simulate(
        documents,
        catalogue=lambda: choose_catalogue(options, held),
        settings=options.settings,
        clock=SystemClock(),
        most_pods=MOST_PODS,
    )
    return _answer(found)


def _answer(found: Simulation) -> Answer:
    body = orjson.dumps(found.answer if found.usable else {**found.answer, "error": UNUSABLE})
    if len(body) > MOST_ANSWER_BYTES:
        text = f"the answer has {len(body)} bytes, at most {MOST_ANSWER_BYTES}"
        raise Refused(413, f"{text}; send fewer pods, or use dovetail simulate")
    return Answer(200 if found.usable else 422, body)


def choose_catalogue(options: Options, held: Catalogue | None) -> Catalogue:
    """That of the cluster's region, before it was ever read the bundled one. Raises Refused for another region."""
    if held is not None and options.region in ("", held.region):
        return held
    if options.region in ("", BUNDLED_REGION):
        return bundled_catalogue()
    raise Refused(400, f"no catalogue of {options.region[:40]!r} here; leave region out")


def read_body(body: bytes) -> tuple[list[object], dict[str, str]]:
    """The objects and the options beside them. Raises Refused.

    Taken are a Kubernetes object, a List of them, a JSON list, or ``{"objects": [...], "policy": "LowestCost", ...}``.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        fix = "send what kubectl get -o json prints, or a list of objects"
        raise Refused(400, f"the body is no JSON: {error}; {fix}") from error
    if not isinstance(document, dict | list):
        raise Refused(400, "the body is no object; send what kubectl get -o json prints")
    fields: dict[str, str] = {}
    if isinstance(document, dict) and not document.get("kind"):
        document, fields = _unwrapped(document)
    documents = list(flattened(document if isinstance(document, list) else [document]))
    if len(documents) > MOST_OBJECTS:
        raise Refused(413, f"more than {MOST_OBJECTS} objects")
    return documents, fields


def _unwrapped(envelope: Mapping[str, Any]) -> tuple[list[object], dict[str, str]]:
    names = [name for name in ENVELOPE if name in envelope]
    objects = envelope[names[0]] if len(names) == 1 else None
    if not isinstance(objects, list):
        raise Refused(400, "the body needs a list of Kubernetes objects in 'objects'")
    others: Iterable[tuple[str, Any]] = envelope.items()
    fields = {name: str(value) for name, value in others if name not in (*names, "apiVersion")}
    return objects, fields
