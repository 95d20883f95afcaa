"""botocore's parsers, made strict: they refuse answers that AWS did not write.

botocore reads leniently: an HTML page becomes an answer without elements, unreadable JSON an empty answer, and text in
place of a list an empty list. "No instances" must never mean "unknown", so everything but a complete answer of AWS to
this operation raises ``NotAnAnswer``: the outcome of the call is unknown.

    ec2, query       the root element is named after the operation
    json, rest-json  the body is a JSON object whose values have the types of the service model
    all              AWS's request id and the elements of ``expected`` are present; text is not a list or a structure

A page of 100 instance types is 400 KB of XML: parsing it takes 50-80 ms, which would block every other task of the
process. So answers above ``LARGE_BODY_BYTES`` are parsed in a thread. The executor should have one thread: each further
one may hold the interpreter lock for 5 ms before the event loop runs again.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Executor
from typing import Any

from botocore.parsers import (
    PROTOCOL_PARSERS,
    EC2QueryParser,
    JSONParser,
    QueryParser,
    ResponseParserError,
    RestJSONParser,
)

from shared.cloud.client.answers.expected import missing

JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "structure": dict,
    "map": dict,
    "list": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
}


class NotAnAnswer(ResponseParserError):  # type: ignore[misc]
    """The answer was written or truncated by a party between Dovetail and AWS, such as a proxy."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"the answer is not from AWS ({found}): if this repeats, check the proxies between Dovetail and AWS"
        )


class _Strict:
    """Parses one answer; a mixin for botocore's parsers."""

    operation = ""
    is_success = False

    def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """The parsed answer or error of AWS. Raises ResponseParserError for anything else."""
        self.operation = (response.get("context") or {}).get("operation_name", "")
        self.is_success = response["status_code"] < 300
        try:
            parsed = super().parse(response, shape)  # type: ignore[misc]
        except ResponseParserError:
            raise
        except Exception as error:  # botocore has no error class for a wrong value
            raise NotAnAnswer(f"{type(error).__name__}: {error}") from error
        if self.is_success and self.operation:
            _require_whole(self.operation, parsed)
        return parsed


def _require_whole(operation: str, parsed: dict[str, Any]) -> None:
    if not (parsed.get("ResponseMetadata") or {}).get("RequestId"):
        raise NotAnAnswer("it has no request id")
    lacking = missing(operation, parsed)
    if lacking is not None:
        raise NotAnAnswer(f"it lacks {lacking}")


class _StrictXml(_Strict):
    """For the two protocols that answer in XML."""

    def _parse_xml_string_to_dom(self, xml_string: bytes) -> Any:
        root = super()._parse_xml_string_to_dom(xml_string)  # type: ignore[misc]
        name = self._node_tag(root)  # type: ignore[attr-defined]
        expected = f"{self.operation}Response"
        if self.is_success and self.operation and name != expected:
            raise NotAnAnswer(f"its root element is {name}, not {expected}")
        return root

    def _parse_shape(self, shape: Any, node: Any) -> Any:
        if shape.type_name in ("list", "map", "structure"):
            _refuse_text(shape, node)
        return super()._parse_shape(shape, node)  # type: ignore[misc]


def _refuse_text(shape: Any, node: Any) -> None:
    for one in node if isinstance(node, list) else [node]:
        if (one.text or "").strip():
            raise NotAnAnswer(f"{shape.name} is a text")


class _StrictJson(_Strict):
    """For the two protocols that answer in JSON."""

    def _do_parse(self, response: dict[str, Any], shape: Any) -> Any:
        body = response["body"]
        if shape is None and not isinstance(self._parse_body_as_json(body), dict):
            raise NotAnAnswer("it is not a JSON object")
        return super()._do_parse(response, shape)  # type: ignore[misc]

    def _parse_body_as_json(self, body_contents: bytes) -> Any:
        if not body_contents:
            return {}
        try:
            return json.loads(body_contents)
        except ValueError as error:
            raise NotAnAnswer("it is not JSON") from error

    def _parse_shape(self, shape: Any, node: Any) -> Any:
        expected = JSON_TYPES.get(shape.type_name)
        # A bool is an int in Python, so it must be refused by itself where a number is expected.
        is_bool = shape.type_name != "boolean" and isinstance(node, bool)
        if expected and self.is_success and (is_bool or not isinstance(node, expected)):
            raise NotAnAnswer(f"{shape.name} is {type(node).__name__}, not {shape.type_name}")
        return super()._parse_shape(shape, node)  # type: ignore[misc]


class _Ec2(_StrictXml, EC2QueryParser):  # type: ignore[misc]
    """EC2."""


class _Query(_StrictXml, QueryParser):  # type: ignore[misc]
    """IAM, EC2 Auto Scaling, STS."""


class _Json(_StrictJson, JSONParser):  # type: ignore[misc]
    """SQS, SSM, EventBridge, the Price List."""


class _RestJson(_StrictJson, RestJSONParser):  # type: ignore[misc]
    """EKS, zonal shift."""


STRICT_PARSERS = {
    **PROTOCOL_PARSERS,
    "ec2": _Ec2,
    "query": _Query,
    "json": _Json,
    "rest-json": _RestJson,
}
"""Parsers by protocol. Credentials may come through protocols that no call here uses: their parsers are botocore's."""


LARGE_BODY_BYTES = 32 * 1024


class ThreadedParser:
    """One response's parser: on the loop for small bodies, in a thread for large ones."""

    def __init__(self, parser: Any, executor: Executor) -> None:
        self._parser = parser
        self._executor = executor

    async def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """The parsed answer. ``response`` has ``body`` (bytes), ``headers``, ``status_code`` and ``context``.

        Raises ResponseParserError for anything but a complete answer of AWS.
        """
        body = response["body"]
        if isinstance(body, bytes) and len(body) > LARGE_BODY_BYTES:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._parser.parse, response, shape)
        return self._parser.parse(response, shape)


class ThreadedParserFactory:
    """A replacement for the ``response_parser_factory`` component of an aiobotocore session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._defaults: dict[str, Any] = {}

    def set_parser_defaults(self, **defaults: Any) -> None:
        """Called by botocore when a client is created."""
        self._defaults.update(defaults)

    def create_parser(self, protocol: str) -> ThreadedParser:
        """A parser for one answer; parsers share no state, so threads cannot interfere."""
        return ThreadedParser(STRICT_PARSERS[protocol](**self._defaults), self._executor)
