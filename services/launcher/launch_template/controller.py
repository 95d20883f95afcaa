"""The launch templates that a launch needs: one per variant, made when they are missing (LCH-20..26, T-07).

What may go wrong: no image suits any type that is asked for, or the boot data is too long for EC2: ``InvalidObject``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from services.launcher.cluster import ClusterDescription, ClusterDns
from services.launcher.launch_template.content import (
    template_data,
    template_name,
    template_name_v1,
    template_tags,
)
from services.launcher.launch_template.store import TemplateStore
from services.launcher.launch_template.variants import Choice, Template, Variant, variants
from services.launcher.resolved_class import Resolved
from shared.cloud.ec2.records import LaunchTemplate
from shared.cloud.user_data.bootstrap import Bootstrap, boot_taints, kubelet_labels
from shared.cloud.user_data.rendering import render
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirements
from shared.settings import LauncherSettings


def boot_labels(machine: Machine) -> dict[str, str]:
    """The Machine's labels and what its requirements decided, as far as a kubelet may set them (LCH-37)."""
    decided = Requirements.of(machine.requirements).labels()
    # The kubelet and the cloud provider know the instance better than the plan did.
    known = (keys.INSTANCE_TYPE, keys.ZONE, keys.REGION, keys.ARCH, keys.OS)
    labels = {k: v for k, v in {**decided, **machine.labels}.items() if k not in known}
    if machine.api.keeps_node_taints:
        labels[keys.DO_NOT_SYNC_TAINTS] = "true"  # LCH-39: the kubelet registers with them
    return kubelet_labels(labels)


@dataclass
class LaunchTemplates:
    """Makes the templates of a launch, all at once."""

    cluster: ClusterDescription
    dns: ClusterDns
    settings: LauncherSettings
    store: TemplateStore

    async def ensure(
        self, machine: Machine, resolved: Resolved, choices: Iterable[Choice]
    ) -> list[Template]:
        """Templates that together start every chosen type for which there is an image. Raises InvalidObject."""
        desired = variants(machine, resolved, choices)
        if resolved.launch_template is not None:
            return [_users_own(resolved.launch_template, desired)]
        made = (self._one(machine, resolved, *one) for one in desired.items())
        return list(await asyncio.gather(*made))

    def forget(self) -> None:
        """EC2 says that a template is gone; make them again (LCH-25)."""
        self.store.forget()

    async def _one(
        self, machine: Machine, resolved: Resolved, variant: Variant, types: frozenset[str]
    ) -> Template:
        node_class, cluster = resolved.node_class, self.settings.cluster_name
        user_data = await self._user_data(machine, node_class, variant.max_pods)
        described = await self.cluster.described()
        data = template_data(
            machine, resolved, variant, user_data,
            cluster=cluster,
            reserved_capacity=self.settings.feature_gates.reserved_capacity,
            is_ipv6=described.is_ipv6,
        )  # fmt: skip
        tags = template_tags(machine, node_class, cluster)
        own = node_class.api.own_tags
        name = template_name_v1(data, tags) if own else template_name(cluster, data)
        made = await self.store.ensure(name, data, tags)
        return Template(made.id, made.version, variant.image, types, variant.reservation_id)

    async def _user_data(self, machine: Machine, node_class: NodeClass, pods: int) -> str:
        cluster, dns = await asyncio.gather(self.cluster.described(), self.dns.address())
        kubelet = (node_class if node_class.api.class_has_kubelet else machine).kubelet
        taints = [(t.key, t.value, t.effect) for t in (*machine.taints, *machine.startup_taints)]
        bootstrap = Bootstrap(
            cluster_name=self.settings.cluster_name,
            endpoint=self.settings.cluster_endpoint or cluster.endpoint,
            ca_bundle=self.settings.cluster_ca_bundle or cluster.certificate_authority,
            cluster_dns=dns,
            labels=boot_labels(machine),
            taints=boot_taints(taints),
            max_pods=pods,
            kubelet=kubelet,
            user_data=node_class.user_data,
            service_cidr=cluster.service_cidr,
            raid0_instance_store=node_class.instance_store_policy == "RAID0",
        )
        return render(node_class.ami_family, bootstrap)


def _users_own(template: LaunchTemplate, desired: dict[Variant, frozenset[str]]) -> Template:
    """The template that the user keeps, for every type that its image suits (T-07)."""
    (image,) = {variant.image for variant in desired}
    return Template(template.id, template.version, image, frozenset().union(*desired.values()))
