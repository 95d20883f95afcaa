"""Puts the launch saga together from its parts."""

from __future__ import annotations

import asyncio

from services.launcher.launch.admission import Admission, CurrentEpoch, no_election
from services.launcher.launch.controller import LaunchController
from services.launcher.launch.pacing import CallBudget, CallQueue, Pace, Sleep
from services.launcher.launch.record import LaunchRecords
from services.launcher.launch.request import LaunchRequests
from services.launcher.launch.results import LaunchResults
from services.launcher.launch.saga import LaunchSaga
from services.launcher.launch.turns import LaunchTurns
from services.launcher.launch.unavailable_offerings import CapacityErrors
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.metrics import Metrics
from shared.mirror.launch_backoff import LaunchBackoff
from shared.mirror.offerings import CatalogueSource, UnavailableOfferings
from shared.settings import LauncherSettings


def assemble(
    *,
    kube: Kube,
    machines: Machines,
    cloud: Cloud,
    clock: Clock,
    settings: LauncherSettings,
    metrics: Metrics,
    node_classes: NodeClasses,
    templates: LaunchTemplates,
    catalogues: CatalogueSource,
    unavailable: UnavailableOfferings,
    backoff: LaunchBackoff,
    writer: MachineWriter,
    current_epoch: CurrentEpoch = no_election,
    sleep: Sleep = asyncio.sleep,
) -> LaunchController:
    """``current_epoch``: the scheduler's fencing epoch by a quorum read, as ``shared.kube.lease.current_epoch`` gives
    it (F14). ``sleep``: how a call waits for its turn.
    """
    shortage = CapacityErrors(unavailable, catalogues, clock, settings, metrics)
    asking = LaunchRequests(
        Admission(kube, clock, backoff, current_epoch),
        node_classes,
        templates,
        catalogues,
        shortage,
        settings,
    )
    records = LaunchRecords(kube, clock)
    calling = LaunchSaga(
        cloud,
        settings.cluster_name,
        records,
        LaunchResults(machines, writer, clock, metrics, catalogues, node_classes),
        shortage,
        templates,
        CallQueue(Pace(lambda: settings.create_fleet_per_second), clock, sleep),
        CallBudget(clock),
        LaunchTurns(records, machines),
    )
    return LaunchController(machines, asking, calling, clock, settings)
