"""Finds what crashed launches and outside hands left behind (LCH-80, LCH-81, F24).

Nothing is destroyed on one look: an instance must be without a Machine, and a Machine without an instance, in two
looks at least ``grace`` apart (R7), and never more at once than the breaker allows (F23).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.launcher.fleet import MACHINE_TAG, TOKEN_TAG, cluster_tag
from services.launcher.launch import LIVE_STATES
from services.launcher.writing import Writer
from shared.clock import Clock, parse_rfc3339
from shared.cloud.records import Instance
from shared.cloud.session import Cloud
from shared.domain.machines import Machine
from shared.domain.nodes import provider_instance_id
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)

BREAKER_LEAST = 5
BREAKER_SHARE = 0.2


@dataclass
class Sightings:
    """Since when something has looked lost; ``now`` is monotonic."""

    first: dict[str, float] = field(default_factory=dict)

    def confirmed(self, lost: Iterable[str], *, now: float, grace: float) -> list[str]:
        """Those that were lost at every look for ``grace`` seconds; what reappeared is forgotten."""
        seen = set(lost)
        self.first = {name: self.first.get(name, now) for name in sorted(seen)}
        return [name for name, since in self.first.items() if now - since >= grace]


def within_breaker(doomed: list[str], total: int) -> bool:
    """F23: at most max(5, 20 %) at once; more looks like a wrong list, not like garbage."""
    return len(doomed) <= max(BREAKER_LEAST, int(total * BREAKER_SHARE))


@dataclass
class Garbage:
    """The sweep in both directions, and of records whose Machine is gone."""

    kube: Kube
    store: Machines
    cloud: Cloud
    clock: Clock
    settings: LauncherSettings
    writer: Writer
    _orphans: Sightings = field(default_factory=Sightings)
    _widows: Sightings = field(default_factory=Sightings)

    async def sweep(self) -> None:
        """One look at everything that is ours."""
        # Instances before Machines: one that is launched in between is then not in the first list.
        instances = [i for i in await self._instances() if i.state in LIVE_STATES]
        readable, unreadable = await self.store.list_all()
        machines = list(readable)
        records = (await self.kube.list(LAUNCH_RECORDS)).items
        await self._end_widows(instances, machines)
        if unreadable:
            return  # their instances would look like nobody's; the log names the objects to mend
        await self._end_orphans(instances, machines, {r["metadata"]["name"] for r in records})
        await self._end_records(machines, records)

    async def _instances(self) -> list[Instance]:
        tags = {cluster_tag(self.settings.cluster_name): "owned"}
        return await self.cloud.ec2.instances(tags=tags, tag_keys=(MACHINE_TAG,))

    async def _end_orphans(
        self, instances: list[Instance], machines: list[Machine], tokens: set[str]
    ) -> None:
        """Instances that no Machine owns and no open launch will adopt."""
        owned = {provider_instance_id(machine.provider_id) for machine in machines}
        lost = [
            i.id for i in instances if i.id not in owned and i.tags.get(TOKEN_TAG) not in tokens
        ]
        doomed = self._orphans.confirmed(
            lost, now=self.clock.monotonic(), grace=self.settings.garbage_grace
        )
        if not doomed:
            return
        if not within_breaker(doomed, len(instances)):
            log.error("too many instances without a machine, terminating none", instances=doomed)
            return
        log.warning("terminating instances without a machine", instances=doomed)
        await self.cloud.ec2.terminate(doomed)

    async def _end_widows(self, instances: list[Instance], machines: list[Machine]) -> None:
        """Machines whose instance is gone: ended by hand, by EC2, or right after its start."""
        alive = {instance.id for instance in instances}
        launched = [m for m in machines if m.provider_id and not m.terminating]
        by_key = {m.key: m for m in launched}
        lost = [m.key for m in launched if provider_instance_id(m.provider_id) not in alive]
        doomed = self._widows.confirmed(
            lost, now=self.clock.monotonic(), grace=self.settings.garbage_grace
        )
        if doomed and not within_breaker(doomed, len(launched)):
            log.error("too many machines without an instance, deleting none", machines=doomed)
            return
        for key in doomed:
            log.info("garbage collecting machine with no instance", machine=key)
            await self.writer.event(
                by_key[key], "Warning", "InstanceTerminated",
                "the instance ended without an order; was it terminated by hand, or may the node "
                "role not use the volume's KMS key?",
            )  # fmt: skip
            await self.writer.delete(by_key[key], "instance gone")

    async def _end_records(self, machines: list[Machine], records: list[dict[str, object]]) -> None:
        """Records whose Machine went away mid-launch: end what the token started, then the record."""
        wanted = {m.uid for m in machines if not m.terminating and not m.provider_id}
        for raw in records:
            spec: dict[str, object] = raw["spec"]  # type: ignore[assignment]
            subjects: list[dict[str, str]] = spec["machines"]  # type: ignore[assignment]
            if any(subject["uid"] in wanted for subject in subjects):
                continue
            if any(m.uid == s["uid"] and m.provider_id for m in machines for s in subjects):
                await self._drop(str(spec["clientToken"]))
                continue
            age = self.clock.now() - parse_rfc3339(str(spec["createdAt"]))
            await self._end_record(str(spec["clientToken"]), age)

    async def _end_record(self, token: str, age_seconds: float) -> None:
        tags = {cluster_tag(self.settings.cluster_name): "owned", TOKEN_TAG: token}
        found = await self.cloud.ec2.instances(tags=tags)
        alive = [instance.id for instance in found if instance.state in LIVE_STATES]
        if alive:
            log.warning("terminating instances of a launch nobody wants", instances=alive)
            await self.cloud.ec2.terminate(alive)
        elif age_seconds > self.settings.garbage_grace:
            await self._drop(token)

    async def _drop(self, token: str) -> None:
        try:
            await self.kube.delete(LAUNCH_RECORDS, token)
        except NotFound:
            return
