"""Writes Cluster Autoscaler's status ConfigMap (setting STATUS_CONFIG_MAP), when what it says changes and each minute.

What may go wrong: the right is missing or the namespace does not exist; then it is logged and tried again with the next
turn. A Cluster Autoscaler that still runs writes the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from services.scheduler.autoscaler_status.document import same_but_for_times, status_document
from services.scheduler.disruption.methods import Findings
from services.scheduler.state.cluster import ClusterState
from shared.concurrency.clock import Clock
from shared.errors import DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.resources import CONFIG_MAPS
from shared.log import get_logger
from shared.runtime.environment import Environment
from shared.settings import SchedulerSettings

log = get_logger(__name__)

STEP_SECONDS = 10.0
REFRESH_SECONDS = 60.0
"""Readers take an older probe time for a dead autoscaler."""
UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"


@dataclass
class AutoscalerStatus:
    """``place``: namespace/name; ``candidates``: pool keys of machines that may be disrupted now."""

    kube: Kube
    cluster: ClusterState
    clock: Clock
    place: str
    candidates: Callable[[], Iterable[str]]
    _written: dict[str, Any] = field(default_factory=dict)
    _at: float = float("-inf")

    @classmethod
    def of(
        cls, env: Environment[SchedulerSettings], cluster: ClusterState, findings: Findings
    ) -> AutoscalerStatus:
        """With what disruption found last."""
        place = env.settings.status_config_map
        return cls(
            env.kube,
            cluster,
            env.clock,
            place,
            lambda: [one.machine.pool_key for one in findings.candidates],
        )

    async def step(self) -> None:
        """Bring the ConfigMap up to date. Never raises."""
        if self.cluster.not_synced():
            return
        try:
            await self._bring_up_to_date()
        except DovetailError as error:
            log.warning("the status ConfigMap waits", object=self.place, error=error.message)

    async def _bring_up_to_date(self) -> None:
        at = self.clock.monotonic()
        if not self._written:
            self._written = await self._stored()
        view = self.cluster.view
        found = status_document(
            view.pools().values(),
            view.machines(),
            view.nodes(),
            self.candidates(),
            self._written,
            now=self.clock.now(),
        )
        if at - self._at < REFRESH_SECONDS and same_but_for_times(found, self._written):
            return
        await self._write(found)
        self._written, self._at = found, at

    async def _stored(self) -> dict[str, Any]:
        """What an earlier scheduler wrote: since when each status holds."""
        namespace, _, name = self.place.partition("/")
        try:
            held = await self.kube.get(CONFIG_MAPS, name, namespace)
            found = yaml.safe_load(str((held.get("data") or {}).get("status", "")))
        except (NotFound, yaml.YAMLError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    async def _write(self, found: dict[str, Any]) -> None:
        namespace, _, name = self.place.partition("/")
        annotations = {UPDATED: found["time"]}
        data = {"status": yaml.safe_dump(found, sort_keys=False)}
        try:
            body = {"metadata": {"annotations": annotations}, "data": data}
            await self.kube.patch(CONFIG_MAPS, name, body, namespace)
        except NotFound:
            metadata = {"name": name, "namespace": namespace, "annotations": annotations}
            await self.kube.create(CONFIG_MAPS, {"metadata": metadata, "data": data}, namespace)
