"""Puts the launch saga together from its parts."""

from __future__ import annotations

import asyncio

from services.launcher.launch.admission import Admission, CurrentEpoch, no_election
from services.launcher.launch.controller import Launch
from services.launcher.launch.pacing import CallBudget, Pace, Sleep, Turns
from services.launcher.launch.record import LaunchRecords
from services.launcher.launch.request import Asking
from services.launcher.launch.results import Outcomes
from services.launcher.launch.saga import Calling
from services.launcher.launch.turns import Claims
from services.launcher.launch.unavailable_offerings import Shortage
from services.launcher.launch_template.controller import Templates
from services.launcher.machine_writer import Writer
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
    templates: Templates,
    catalogues: CatalogueSource,
    unavailable: UnavailableOfferings,
    backoff: LaunchBackoff,
    writer: Writer,
    current_epoch: CurrentEpoch = no_election,
    sleep: Sleep = asyncio.sleep,
) -> Launch:
    """``current_epoch``: the scheduler's fencing epoch by a quorum read, as ``shared.kube.lease.current_epoch`` gives
    it (F14). ``sleep``: how a call waits for its turn.
    """
    shortage = Shortage(unavailable, catalogues, clock, settings, metrics)
    asking = Asking(
        Admission(kube, clock, backoff, current_epoch),
        node_classes,
        templates,
        catalogues,
        shortage,
        settings,
    )
    records = LaunchRecords(kube, clock)
    calling = Calling(
        cloud,
        settings.cluster_name,
        records,
        Outcomes(machines, writer, clock, metrics, catalogues, node_classes),
        shortage,
        templates,
        Turns(Pace(lambda: settings.create_fleet_per_second), clock, sleep),
        CallBudget(clock),
        Claims(records, machines),
    )
    return Launch(machines, asking, calling, clock, settings)
