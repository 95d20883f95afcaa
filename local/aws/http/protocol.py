"""The parts of an AWS request that the emulator reads before moto does, and error answers in each protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

CREDENTIAL = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")
XML_CODE = re.compile(rb"<Code>([^<]+)</Code>")
BODY_LIMIT = 4 * 1024 * 1024
"""Longest request body in bytes."""


@dataclass(frozen=True, slots=True)
class Request:
    """Service and region come from the signature; ``action`` is empty for most calls of REST services such as EKS."""

    service: str
    region: str
    action: str
    body: bytes
    json_protocol: bool

    def json_parameters(self) -> dict[str, Any]:
        """The parameters of a JSON request; empty when the body is not JSON."""
        try:
            parsed = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def query_parameters(self) -> dict[str, str]:
        """The flat parameters of a query request, such as Filter.1.Name."""
        pairs = parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return {key: value for key, value in pairs if key not in {"Action", "Version"}}


def read(environ: Mapping[str, Any], body: bytes, default_region: str) -> Request:
    """Identify an AWS request."""
    match = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    form = environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded")
    action = target.rpartition(".")[2]
    if form and not target:
        action = dict(parse_qsl(body.decode("utf-8", "replace"))).get("Action", "")
    service = match["service"] if match else target.partition(".")[0].lower()
    if not action:
        action = _rest_action(service, environ)
    return Request(
        service=service,
        region=match["region"] if match else default_region,
        action=action,
        body=body,
        json_protocol=not form,
    )


_REST_ACTIONS = {
    ("eks", "clusters"): "DescribeCluster",
    ("arc-zonal-shift", "managedresources"): "GetManagedResource",
}


def _rest_action(service: str, environ: Mapping[str, Any]) -> str:
    """The action of a REST call. Only the calls that Dovetail makes have one."""
    kind, _, one = str(environ.get("PATH_INFO", "")).strip("/").partition("/")
    is_whole = service != "eks" or "/" not in one
    is_read = environ.get("REQUEST_METHOD") == "GET" and one and is_whole
    return _REST_ACTIONS.get((service, kind), "") if is_read else ""


def error_answer(request: Request, code: str, message: str) -> tuple[str, bytes]:
    """(content type, body) of an error in the request's protocol."""
    if request.json_protocol:
        body = {"__type": code, "message": message}
        return "application/x-amz-json-1.1", json.dumps(body).encode()
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    if request.service == "ec2":
        text = f"<Response><Errors>{error}</Errors><RequestID>fault</RequestID></Response>"
    else:
        text = f"<ErrorResponse>{error}<RequestId>fault</RequestId></ErrorResponse>"
    return "text/xml;charset=UTF-8", text.encode()


def error_code(status: int, body: bytes) -> str | None:
    """The AWS error code of an answer, None for a success."""
    if status < 400:
        return None
    if found := XML_CODE.search(body):
        return found[1].decode()
    try:
        kind = json.loads(body).get("__type", "")
    except (ValueError, AttributeError):
        return "InternalError"
    return str(kind).rpartition("#")[2] or "InternalError"
