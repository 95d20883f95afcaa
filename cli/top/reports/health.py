"""Whether the services, the mirror and its watches work, with the reasons. Pure."""

from __future__ import annotations

from rich.text import Text

from cli.top.cells import safe
from cli.top.reports.records import HealthReport, Lease, Mirror, Service, Watch
from cli.top.reports.table import table
from cli.top.words import ago, verdict

_LEADERS = {None: "none needed", "": "nobody"}


def health_lines(report: HealthReport, now: float, width: int) -> list[Text]:
    """The mirror, then services, Leases and watches; what is broken first. ``now``: seconds since the epoch."""
    services = sorted(report.services, key=lambda one: (one.ready and not one.problem, one.name))
    watches = sorted(report.watches, key=lambda one: (one.sound, one.resource))
    leases = [_lease(one, now) for one in report.leases]
    return [
        _mirror(report.mirror),
        Text(),
        *table(["service", "state", "leader", "why"], list(map(_service, services)), width),
        Text(),
        *(table(["lease", "holder", "renewed"], leases, width) or [_no_lease(report)]),
        Text(),
        *table(["resource", "watch", "last heard"], list(map(_watch, watches)), width),
    ]


def _mirror(mirror: Mirror) -> Text:
    heard = f" (last heartbeat of the watcher: {ago(mirror.age_seconds)})"
    if mirror.ok:
        return Text(f"The mirror of the cluster can be relied on{heard}")
    why = f"The mirror of the cluster cannot be relied on: {safe(mirror.reason)}{heard}"
    return Text(why, style="bold red")


def _service(one: Service) -> list[Text]:
    state = verdict(
        one.ready and not one.problem, "ready", "no answer" if one.problem else "not ready"
    )
    reasons = "; ".join(safe(reason) for reason in (one.problem, *one.reasons) if reason)
    leader = _LEADERS.get(one.leader) or safe(one.leader or "")
    return [Text(safe(one.name)), state, Text(leader), Text(reasons or "-")]


def _lease(one: Lease, now: float) -> list[Text]:
    since = None if one.renewed is None else now - one.renewed
    return [Text(safe(one.name)), Text(safe(one.holder) or "nobody"), Text(ago(since))]


def _no_lease(report: HealthReport) -> Text:
    if report.problem:  # which is printed already
        return Text("Leases are not known.", style="dim")
    return Text("No Lease exists: leader election is off, and each service leads.", style="dim")


def _watch(one: Watch) -> list[Text]:
    return [
        Text(safe(one.resource)),
        verdict(one.sound, "sound", "broken"),
        Text(ago(one.age_seconds)),
    ]
