"""Answers ProvisioningRequests in their conditions, from what the last plan found (GAT-04).

As ``buffers``: each turn writes what differs, so a lost write or a restart is mended by the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.scheduler.kept_room.buffer_status import Outcome, outcomes_of
from services.scheduler.kept_room.request_status import Answer, desired_conditions
from services.scheduler.state.cluster import View
from shared.api.conditions import condition_objects
from shared.concurrency.clock import Clock
from shared.domain.records import POD_TEMPLATES
from shared.domain.records import PROVISIONING_REQUESTS as RECORDS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.provisioning_requests import ATOMIC, ProvisioningRequest, Stage
from shared.domain.workloads.virtual_pods import request_pods
from shared.errors import Conflict, InvalidObject, NotFound, TransientError
from shared.kube.client import Kube
from shared.kube.resources import PROVISIONING_REQUESTS
from shared.log import get_logger
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings
from shared.solver.virtual_pods import checked

log = get_logger(__name__)


@dataclass
class Requests:
    """``noted`` is called with every plan, ``step`` now and then."""

    kube: Kube
    view: View
    clock: Clock
    _outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    _fits: Mapping[str, bool] = field(default_factory=dict)
    """Both by UID of the request."""

    def open(self) -> list[ProvisioningRequest]:
        """Those to which an answer is due."""
        now = self.clock.now()
        found = self.view.records(RECORDS).values()
        return [one for one in found if one.is_ours and one.stage(now=now) == Stage.OPEN]

    async def noted(self, plan: Plan, snapshot: Snapshot, settings: SolverSettings) -> None:
        """A plan was made of this snapshot, virtual pods included."""
        if not snapshot.requests:
            return
        self._outcomes = outcomes_of(plan, snapshot)
        now = self.clock.now()
        self._fits = await asyncio.to_thread(checked, snapshot, plan, settings, now=now)

    async def step(self) -> None:
        """Bring the conditions of every request up to date. One that cannot be written does not stop the others."""
        for request in list(self.view.records(RECORDS).values()):
            if not request.is_ours:
                continue
            try:
                await self._write(request)
            except (NotFound, Conflict, InvalidObject) as error:
                log.debug("status overtaken by a change", request=request.key, error=error.message)
            except TransientError as error:
                log.warning("status waits", request=request.key, error=error.message)

    async def _write(self, request: ProvisioningRequest) -> None:
        desired = desired_conditions(request, self._answer(request), now=self.clock.now())
        if desired == request.conditions:
            return
        stored = await self.kube.get(PROVISIONING_REQUESTS, request.name, request.namespace)
        held = (stored.get("status") or {}).get("conditions")
        if held and held != condition_objects(request.conditions):
            return  # written a moment ago: the mirror will show it
        version = stored["metadata"]["resourceVersion"]
        body = {
            "metadata": {"uid": request.uid, "resourceVersion": version},
            "status": {"conditions": condition_objects(desired)},
        }
        await self.kube.patch(
            PROVISIONING_REQUESTS, request.name, body, request.namespace, subresource="status"
        )

    def _answer(self, request: ProvisioningRequest) -> Answer:
        if request.faults:
            return Answer()
        pods = request_pods(request, self.view.records(POD_TEMPLATES))
        if isinstance(pods, str):
            return Answer(problem=pods)
        outcome = self._outcomes.get(request.uid) if request.class_name == ATOMIC else None
        return Answer(fits=self._fits.get(request.uid), outcome=outcome)
