"""Answers ProvisioningRequests in their conditions, from what the last plan found (GAT-04).

As ``buffers``: each turn writes what differs, so a lost write or a restart is mended by the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from services.scheduler.kept_room.buffer_status import Outcome, outcomes_of
from services.scheduler.kept_room.request_status import Answer, desired_conditions, desired_fitting
from services.scheduler.state.cluster import View
from shared.api.conditions import condition_objects
from shared.api.core.autoscaling.provisioning_requests import DETAILS, FITTING, fitting_text
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
from shared.solver.virtual_pods import checked, lost_room

log = get_logger(__name__)

REVOKE_SECONDS = 60.0
"""How long the kept room of a request must be gone before its CapacityRevoked says so, which ends its workload."""


class Lost(NamedTuple):
    """``since``, ``latest``: times of the first and the latest plan in a row that could not give the room again."""

    since: float
    latest: float
    why: str

    @property
    def is_final(self) -> bool:
        """A machine that was interrupted is replaced within a minute, where that is possible."""
        return self.latest - self.since >= REVOKE_SECONDS


@dataclass
class Requests:
    """``noted`` is called with every plan, ``step`` now and then."""

    kube: Kube
    view: View
    clock: Clock
    _outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    _fitting: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    _lost: dict[str, Lost] = field(default_factory=dict)
    """All by UID of the request."""

    @property
    def has_lost_room(self) -> bool:
        """Is room gone that is kept for a request? Then each plan looks whether it can be had again."""
        return bool(self._lost)

    def open(self) -> list[ProvisioningRequest]:
        """Those to which an answer is due."""
        return self._in(Stage.OPEN)

    def live(self) -> list[ProvisioningRequest]:
        """These, and those whose room is kept."""
        return self._in(Stage.OPEN, Stage.BOOKED)

    def _in(self, *stages: Stage) -> list[ProvisioningRequest]:
        now = self.clock.now()
        found = self.view.records(RECORDS).values()
        return [one for one in found if one.is_ours and one.stage(now=now) in stages]

    async def noted(self, plan: Plan, snapshot: Snapshot, settings: SolverSettings) -> None:
        """A plan was made of this snapshot, virtual pods included."""
        if not snapshot.requests:
            self._lost = {}
            return
        self._outcomes = outcomes_of(plan, snapshot)
        now = self.clock.now()
        self._fitting = await asyncio.to_thread(checked, snapshot, plan, settings, now=now)
        self._lost = {
            uid: Lost(self._lost[uid].since if uid in self._lost else now, now, why)
            for uid, why in lost_room(snapshot, plan, now=now).items()
        }

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
        answer, now = self._answer(request), self.clock.now()
        desired = desired_conditions(request, answer, now=now)
        fitting = desired_fitting(request, answer, now=now)
        if (desired, fitting) == (request.conditions, request.fitting):
            return
        stored = await self.kube.get(PROVISIONING_REQUESTS, request.name, request.namespace)
        held = (stored.get("status") or {}).get("conditions")
        if held and held != condition_objects(request.conditions):
            return  # written a moment ago: the mirror will show it
        version = stored["metadata"]["resourceVersion"]
        body = {
            "metadata": {"uid": request.uid, "resourceVersion": version},
            "status": {
                "conditions": condition_objects(desired),
                DETAILS: {FITTING: fitting_text(fitting) if fitting else None},
            },
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
        lost = self._lost.get(request.uid)
        gone = lost.why if lost is not None and lost.is_final else ""
        return Answer(fitting=self._fitting.get(request.uid), outcome=outcome, lost=gone)
