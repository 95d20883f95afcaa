"""The control plane beside the API server: informers, controllers, scheduler and kubelets, each supervised separately.

Indexes are registered with the informers before the controllers that read them, so they are up to date when a
controller is called.
"""

from __future__ import annotations

import random

from local.cluster.addons.catalogue import chosen
from local.cluster.addons.daemons import create_addons
from local.cluster.addons.startup_taints import StartupTaintController
from local.cluster.builtin.manifests import create_manifests
from local.cluster.control_plane.informers import Informers, KeyIndex, Obj, controller_uids
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.control_plane.supervision import supervise
from local.cluster.controllers.cron_job import CronJobController
from local.cluster.controllers.daemonset import DaemonSetController
from local.cluster.controllers.deployment import DeploymentController
from local.cluster.controllers.disruption import DisruptionController
from local.cluster.controllers.garbage import GarbageCollector
from local.cluster.controllers.job import JobController
from local.cluster.controllers.namespaces import NamespaceController
from local.cluster.controllers.node_lifecycle import NodeLifecycleController
from local.cluster.controllers.replicaset import ReplicaSetController
from local.cluster.controllers.resource_claims import ResourceClaimController
from local.cluster.controllers.statefulset import StatefulSetController
from local.cluster.controllers.volume import VolumeController
from local.cluster.controllers.workqueue import Controller, Worker
from local.cluster.kubelet.device_driver import DeviceDrivers
from local.cluster.kubelet.instances import InstanceClient, InstanceSource
from local.cluster.kubelet.node_objects import fixed_node
from local.cluster.kubelet.pods import kubelets
from local.cluster.scheduling.scheduler import Scheduler
from local.cluster.settings import ClusterSettings
from local.cluster.storage.store import Store
from local.cluster.volumes.attach_controller import AttachmentController
from local.cluster.volumes.ephemeral_controller import EphemeralVolumeController
from shared.concurrency.clock import Clock, rfc3339
from shared.concurrency.tasks import TaskGroup

WORKLOADS = (ReplicaSetController, DaemonSetController, StatefulSetController, JobController)


def node_of(pod: Obj) -> list[str]:
    """The name of the pod's node, for an index; none while the pod waits."""
    node = pod["spec"].get("nodeName")
    return [node] if node else []


class ControlPlane:
    """All loops of the cluster over one store."""

    def __init__(
        self,
        store: Store,
        settings: ClusterSettings,
        clock: Clock,
        rng: random.Random,
        *,
        instances: InstanceSource | None = None,
    ) -> None:
        """``instances``: the kubelets' machines, instead of those of the emulator at ``aws_endpoint_url``."""
        self._store, self._settings, self._clock = store, settings, clock
        self._instances = instances
        self._informers = Informers(store)
        self._recorder = EventRecorder(store, clock)
        # The indexes register their handlers here, before the controllers that read them (see the module docstring).
        pods_by_node = KeyIndex(store, self._informers, "pods", node_of)
        self.fleet, self._runner = kubelets(store, pods_by_node, self._recorder, clock, settings)
        self._scheduler = Scheduler(
            store,
            self._recorder,
            clock,
            rng,
            settings.scheduler_strategy,
            settings.scheduler_writes_per_second,
        )
        self._controllers = self._all_controllers(pods_by_node, rng)

    def _all_controllers(self, pods_by_node: KeyIndex, rng: random.Random) -> list[Controller]:
        store, informers = self._store, self._informers
        clock, recorder = self._clock, self._recorder
        owned_pods = KeyIndex(store, informers, "pods", controller_uids)
        replica_sets = KeyIndex(store, informers, "replicasets", controller_uids, group="apps")
        owned_jobs = KeyIndex(store, informers, "jobs", controller_uids, group="batch")
        return [
            DeploymentController(store, replica_sets, owned_pods, recorder, clock),
            *(kind(store, owned_pods, recorder, clock, rng) for kind in WORKLOADS),
            CronJobController(store, owned_jobs, recorder, clock),
            DisruptionController(store, clock),
            VolumeController(store, recorder),
            EphemeralVolumeController(store, recorder),
            ResourceClaimController(store, informers),
            self._device_drivers(),
            AttachmentController(store, informers, pods_by_node, recorder),
            NodeLifecycleController(store, pods_by_node, clock),
            StartupTaintController(store, pods_by_node),
            NamespaceController(store),
            GarbageCollector(store),
        ]

    def _device_drivers(self) -> DeviceDrivers:
        settings = self._settings
        named = frozenset(filter(None, map(str.strip, settings.dra_drivers.split(","))))
        return DeviceDrivers(self._store, self._clock, named, settings.dra_driver_seconds)

    def create_first_objects(self) -> None:
        """Create the objects of CRD_DIRECTORY, the fixed nodes and the add-ons. Raises ConfigurationError."""
        settings = self._settings
        if settings.crd_directory is not None:
            create_manifests(self._store, settings.crd_directory)
        now = self._clock.now()
        for number in range(settings.fixed_nodes):
            node = fixed_node(number, settings.aws_region, now, rfc3339(now))
            if self._store.find("nodes", node["metadata"]["name"]) is None:
                self._store.create("nodes", node)
        create_addons(self._store, chosen(settings.addons).values())

    async def run(self) -> None:
        """Run every loop until cancelled."""
        self._scheduler.register(self._informers)
        self._runner.register(self._informers)
        for controller in self._controllers:
            controller.register(self._informers)
        async with TaskGroup() as group:
            group.create_task(supervise("informers", self._informers.run))
            group.create_task(supervise("events", self._recorder.run))
            group.create_task(supervise("scheduler", self._scheduler.run))
            group.create_task(supervise("pods", self._runner.run))
            for controller in self._controllers:
                group.create_task(supervise(controller.name, Worker(controller).run))
            if self._instances is not None or self._settings.aws_endpoint_url:
                group.create_task(supervise("kubelets", self._run_kubelets))

    async def _run_kubelets(self) -> None:
        seconds = self._settings.kubelet_poll_seconds
        if self._instances is not None:
            await self.fleet.run(self._instances, seconds)
            return
        async with InstanceClient(self._settings.aws_endpoint_url or "") as client:
            await self.fleet.run(client, seconds)
