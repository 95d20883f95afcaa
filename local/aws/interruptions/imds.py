"""The instance metadata service, one per instance: ``/_dovetail/imds/<instance id>/latest/...``.

It has the parts of IMDSv2 that termination handlers read: tokens, the spot notice, the rebalance recommendation,
scheduled events, the auto scaling target state, and the instance's identity.

A request without a valid token is 401, as on EC2 with ``HttpTokens: required``; a path without an announcement is 404;
a terminated instance answers nothing on EC2 and 404 here.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

from local.aws.ec2.instances import Instance, Inventory
from local.aws.interruptions.notices import Maintenance, Notice, Notices
from shared.concurrency.clock import Clock, rfc3339

PREFIX = "/_dovetail/imds/"
TOKEN_PATH = "latest/api/token"
META_DATA = "latest/meta-data/"
TOKEN_HEADER = "HTTP_X_AWS_EC2_METADATA_TOKEN"
TTL_HEADER = "HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS"
LONGEST_TTL_SECONDS = 21_600
TOKEN_LIMIT = 10_000

Text = tuple[int, str]
"""(HTTP status, body)."""


@dataclass(frozen=True, slots=True)
class Imds:
    """Answers as text, as the real service does."""

    inventory: Inventory
    notices: Notices
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)

    def answer(self, method: str, path: str, environ: Mapping[str, str]) -> Text:
        """``path`` follows ``PREFIX``; ``environ`` holds the request's headers, as WSGI has them."""
        instance_id, _, rest = path.partition("/")
        instance = self.inventory.get(instance_id)
        if instance is None or instance.state == "terminated":
            return _error(HTTPStatus.NOT_FOUND)
        if instance.metadata_options.get("HttpEndpoint") == "disabled":
            return _error(HTTPStatus.FORBIDDEN)
        if rest == TOKEN_PATH:
            return self._token(method, instance_id, environ.get(TTL_HEADER, ""))
        if method != "GET":
            return _error(HTTPStatus.METHOD_NOT_ALLOWED)
        if not self._authorized(instance, environ.get(TOKEN_HEADER)):
            return _error(HTTPStatus.UNAUTHORIZED)
        return self._read(instance, rest)

    def _token(self, method: str, instance_id: str, ttl: str) -> Text:
        if method != "PUT":
            return _error(HTTPStatus.METHOD_NOT_ALLOWED)
        if not ttl.isascii() or not ttl.isdigit() or not 1 <= int(ttl) <= LONGEST_TTL_SECONDS:
            return _error(HTTPStatus.BAD_REQUEST)
        token = secrets.token_urlsafe(40)
        with self._lock:
            if len(self._tokens) >= TOKEN_LIMIT:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[token] = (instance_id, self.clock.monotonic() + int(ttl))
        return 200, token

    def _authorized(self, instance: Instance, token: str | None) -> bool:
        if token is None:
            return instance.metadata_options.get("HttpTokens", "required") == "optional"
        owner, ends = self._tokens.get(token, ("", 0.0))
        return owner == instance.instance_id and self.clock.monotonic() < ends

    def _read(self, instance: Instance, path: str) -> Text:
        read = _PATHS.get(path.removeprefix(META_DATA)) if path.startswith(META_DATA) else None
        text = None if read is None else read(instance, self.notices.of(instance.instance_id))
        return _error(HTTPStatus.NOT_FOUND) if text is None else (200, text)


def _spot_action(instance: Instance, notice: Notice) -> str | None:
    if notice.ends_at is None:
        return None
    return json.dumps({"action": "terminate", "time": rfc3339(notice.ends_at)})


def _spot_time(instance: Instance, notice: Notice) -> str | None:
    return None if notice.ends_at is None else rfc3339(notice.ends_at)


def _rebalance(instance: Instance, notice: Notice) -> str | None:
    if notice.rebalance_at is None:
        return None
    return json.dumps({"noticeTime": rfc3339(notice.rebalance_at)})


def _maintenance(instance: Instance, notice: Notice) -> str:
    return json.dumps([_scheduled(event) for event in notice.maintenance])


def _scheduled(event: Maintenance) -> dict[str, str]:
    return {
        "NotBefore": _maintenance_time(event.not_before),
        "NotAfter": _maintenance_time(event.not_after),
        "Code": event.code,
        "Description": event.description,
        "EventId": event.event_id,
        "State": "active",
    }


def _maintenance_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%-d %b %Y %H:%M:%S GMT")


_PATHS: Mapping[str, Callable[[Instance, Notice], str | None]] = {
    "autoscaling/target-lifecycle-state": lambda i, n: n.target_lifecycle_state,
    "events/maintenance/history": lambda i, n: "[]",
    "events/maintenance/scheduled": _maintenance,
    "events/recommendations/rebalance": _rebalance,
    "instance-id": lambda i, n: i.instance_id,
    "instance-life-cycle": lambda i, n: i.lifecycle,
    "instance-type": lambda i, n: i.instance_type,
    "ami-id": lambda i, n: i.image_id,
    "local-hostname": lambda i, n: i.private_dns_name,
    "local-ipv4": lambda i, n: i.private_ip,
    "placement/availability-zone": lambda i, n: i.zone,
    "placement/availability-zone-id": lambda i, n: i.zone_id,
    "placement/region": lambda i, n: i.region,
    "spot/instance-action": _spot_action,
    "spot/termination-time": _spot_time,
}


def _error(status: HTTPStatus) -> Text:
    return status.value, f"{status.value} - {status.phrase}"
