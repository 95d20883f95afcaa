"""Whether the services, the mirror and its watches work, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.console.feed.feed import Trust
from services.console.reports.peers import Peers, PeerStatus
from shared.concurrency.clock import Clock, parse_rfc3339
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import LEASES
from shared.redis.mirror import MirrorReader

LEASES_SECONDS = 3.0
"""The Leases are read at most so often, however many pages are open."""


@dataclass
class Health:
    """Reads Leases on demand; everything else is known already."""

    peers: Peers
    reader: MirrorReader
    kube: Kube
    clock: Clock
    namespace: str
    prefix: str
    """Of the Leases' names."""
    _leases: list[dict[str, Any]] = field(default_factory=list)
    _problem: str = ""
    _read_at: float | None = None

    async def document(self, trust: Trust) -> dict[str, Any]:
        """As the page reads it."""
        await self._read_leases()
        now = self.clock.monotonic()
        return {
            "services": [
                service_row(name, self.peers.urls.get(name, ""), status)
                for name, status in self.peers.statuses.items()
            ],
            "leases": self._leases,
            "problem": self._problem,
            "mirror": {"ok": trust.ok, "reason": trust.reason, "ageSeconds": self._age(now)},
            "watches": watches(self.reader, now),
        }

    def _age(self, now: float) -> float | None:
        age = self.reader.age(now)
        return age if age < 1e9 else None

    async def _read_leases(self) -> None:
        now = self.clock.monotonic()
        if self._read_at is not None and now - self._read_at < LEASES_SECONDS:
            return
        self._read_at = now
        try:
            found = await self.kube.list(LEASES, self.namespace)
        except DovetailError as error:
            self._problem = f"Leases cannot be read: {error.message}"
            return
        rows = map(lease_row, found.items)
        self._leases = [row for row in rows if row["name"].startswith(self.prefix)]
        self._problem = ""


def service_row(name: str, url: str, status: PeerStatus) -> dict[str, Any]:
    """A service that does not answer is not ready, whatever it said last."""
    answers = not status.problem
    return {
        "name": name,
        "url": url,
        "ready": answers and bool(status.document.get("ready")),
        "reasons": [str(one) for one in status.document.get("reasons") or ()] if answers else [],
        "leader": leader_of(status.document),
        "problem": status.problem,
    }


def leader_of(document: Mapping[str, Any]) -> str | None:
    """ "leading" or "standby" of a service with leader election; None without."""
    leading = document.get("leading")
    return None if leading is None else "leading" if leading else "standby"


def lease_row(lease: Mapping[str, Any]) -> dict[str, Any]:
    """``renewed`` in seconds since the epoch, None when it cannot be read."""
    spec = lease.get("spec") or {}
    try:
        renewed = parse_rfc3339(str(spec.get("renewTime")))
    except ValueError:
        renewed = None
    name = (lease.get("metadata") or {}).get("name") or ""
    return {"name": str(name), "holder": spec.get("holderIdentity") or "", "renewed": renewed}


def watches(reader: MirrorReader, now: float) -> list[dict[str, Any]]:
    """The watches behind the mirror, as the watcher reports them. ``now``: monotonic."""
    found = []
    for plural in reader.watched():
        position = reader.position(plural, now)
        if position is not None:
            found.append(
                {"resource": plural, "sound": position.sound, "ageSeconds": position.seconds}
            )
    return found
