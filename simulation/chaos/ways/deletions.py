"""Which service ordered a deletion: seen in its requests, because an object does not say who deletes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from local.cluster.api.requests import parse_path
from shared.kube.informer import Key

_REQUEST = re.compile(rb"(DELETE|POST) ([^ ?]+)\S* HTTP/1\.1\r\n")
EFFECT_SECONDS = 10.0
"""Within this time an order has its effect, or it was refused."""
MOST_ORDERS = 10_000


class Deletions:
    """The orders of a run. ``time`` returns seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._orders: dict[tuple[str, Key], tuple[float, str, str]] = {}
        """Plural and key -> when it was ordered, verb, service."""

    def note(self, party: str, data: bytes) -> None:
        """A request of a service is about to arrive."""
        found = _REQUEST.match(data)
        target = parse_path(found[2].decode()) if party and found else None
        if found is None or target is None or not target.name:
            return
        verb = "delete" if found[1] == b"DELETE" else "evict"
        if verb == "evict" and target.subresource != "eviction":
            return
        while len(self._orders) >= MOST_ORDERS:
            del self._orders[next(iter(self._orders))]
        self._orders[target.plural, Key(target.namespace, target.name)] = self._time(), verb, party

    def take(self, plural: str, key: Key) -> tuple[str, str]:
        """Verb and service of the order that this object's deletion followed; ("delete", "") without one."""
        at, verb, party = self._orders.pop((plural, key), (0.0, "delete", ""))
        return (verb, party) if self._time() - at <= EFFECT_SECONDS else ("delete", "")
