"""The launch templates that a launch needs: one per variant, made when they are missing, deleted when nobody uses them
(LCH-20..26, T-07).

A minute after the last use of a template by any launcher, the next sweep deletes it from EC2, unless the record of a
launch in progress names it. Those of an earlier incarnation are found by their tags, and go the same way.

What may go wrong: no image suits any type that is asked for, or the boot data is too long for EC2: ``InvalidObject``. A
launcher takes a template in the moment between the last check and the deletion: EC2 then refuses the launch, and the
template is made again (LCH-25).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from services.launcher.cluster import ClusterDescription, ClusterDns
from services.launcher.launch_template.content import (
    NAME_PREFIX_V1,
    name_prefix,
    template_data,
    template_name,
    template_name_v1,
    template_tags,
)
from services.launcher.launch_template.variants import Choice, Template, Variant, variants
from services.launcher.ports import Ports
from services.launcher.resolved_class import Resolved
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.launch_templates import TemplateNotListed
from shared.cloud.ec2.ownership import cluster_tag
from shared.cloud.ec2.records import LaunchTemplate
from shared.cloud.user_data.bootstrap import Bootstrap, boot_taints, kubelet_labels
from shared.cloud.user_data.rendering import render
from shared.domain import labels as keys
from shared.domain.instance_types.expressions import parted
from shared.domain.instance_types.sizes import ReservedTexts
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirements
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.redis.mirror.template_use import UNUSED_SECONDS, TemplateUse
from shared.settings import LauncherSettings

log = get_logger(__name__)

TEMPLATE_FRESH_SECONDS = 50.0
"""How long a process believes that a template is there: less, for clocks differ."""
HIDDEN_SECONDS = 5.0
"""EC2 is not asked again so soon for a template whose name is taken and which it does not list: its lists may be
minutes behind, and each launch that waits for one would ask four times at each attempt."""
SWEEP_SECONDS = 20.0
MOST_TEMPLATES_KNOWN = 1000
MOST_TEMPLATES_DELETED = 50
"""In one sweep: the calls are limited."""
Json = Mapping[str, Any]


def templates_of(record: Json) -> frozenset[str]:
    """Ids of the templates that a LaunchRecord's request starts from; a part of another form starts none."""
    listed = (record["spec"].get("request") or {}).get("LaunchTemplateConfigs")
    named = (
        one.get("LaunchTemplateSpecification")
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping)
    )
    ids = (one.get("LaunchTemplateId") for one in named if isinstance(one, Mapping))
    return frozenset(one for one in ids if isinstance(one, str))


async def used_by_launches(kube: Kube) -> frozenset[str]:
    """Ids of the templates that launches in progress use: ask right before every deletion."""
    records = (await kube.list(LAUNCH_RECORDS)).items
    return frozenset().union(*map(templates_of, records))


@dataclass
class _Known:
    template: LaunchTemplate
    used_at: float
    """By this process, by the monotonic clock; for one that was found by its tags: when that was."""


@dataclass
class TemplateStore:
    ports: Ports
    use: TemplateUse
    _known: dict[str, _Known] = field(default_factory=dict)
    _complete: bool = False
    """Every template with our tags is known: found since the start, or since they were forgotten."""
    _hidden: dict[str, float] = field(default_factory=dict)
    """Name of a template that EC2 does not list, although the name is taken -> when it is asked again."""
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def ensure(self, name: str, data: dict[str, Any], tags: dict[str, str]) -> LaunchTemplate:
        """The template of this name, made now if there is none.

        Raises what EC2 says against it, and TemplateNotListed for one that EC2 did not list a moment ago.
        """
        async with self._lock(name):
            known, now = self._known.get(name), self.ports.clock.monotonic()
            if now < self._hidden.get(name, -math.inf):
                raise TemplateNotListed(name)
            await self.use.record(name)
            if known is None or now - known.used_at >= TEMPLATE_FRESH_SECONDS:
                known = _Known(await self._found_or_made(name, data, tags), now)
                self._remember(name, known)
            known.used_at = now
            return known.template

    async def _found_or_made(
        self, name: str, data: dict[str, Any], tags: dict[str, str]
    ) -> LaunchTemplate:
        try:
            template, is_new = await self.ports.cloud.launch_templates.ensure(name, data, tags)
        except TemplateNotListed:
            self._hide(name)
            raise
        self._hidden.pop(name, None)
        if is_new:
            _log_created(template)
        return template

    def _hide(self, name: str) -> None:
        now = self.ports.clock.monotonic()
        self._hidden = {one: until for one, until in self._hidden.items() if now < until}
        self._hidden[name] = now + HIDDEN_SECONDS

    def forget(self) -> None:
        """EC2 says that one is gone (LCH-25): each is searched in EC2 again before its next use."""
        self._known.clear()
        self._complete = False

    async def sweep(self) -> None:
        """Find what an earlier incarnation left, delete what nobody used. The first error comes last."""
        if not self._complete:
            await self._find()
        failed: DovetailError | None = None
        for name in self._unused()[:MOST_TEMPLATES_DELETED]:
            try:
                await self._end(name)
            except DovetailError as error:
                log.warning(
                    "cannot delete launch template", launch_template_name=name, error=error.message
                )
                failed = failed or error
        if failed is not None:
            raise failed

    async def _find(self) -> None:
        """Not every template with the cluster's tag is ours: node groups have them too (LCH-22)."""
        cluster = self.ports.settings.cluster_name
        found = await self.ports.cloud.launch_templates.tagged({cluster_tag(cluster): "owned"})
        ours = (NAME_PREFIX_V1, name_prefix(cluster))
        now = self.ports.clock.monotonic()
        self._complete = True
        for template in found:
            if not template.name.startswith(ours) or template.name in self._known:
                continue
            if len(self._known) >= MOST_TEMPLATES_KNOWN:
                self._complete = False
                break
            self._known[template.name] = _Known(template, now)
        log.debug("hydrated launch templates", count=len(self._known))

    def _unused(self) -> list[str]:
        now = self.ports.clock.monotonic()
        return [n for n, known in self._known.items() if now - known.used_at >= UNUSED_SECONDS]

    async def _end(self, name: str) -> None:
        async with self._lock(name):
            known, now = self._known.get(name), self.ports.clock.monotonic()
            if known is None or now - known.used_at < UNUSED_SECONDS:
                return
            if await self._is_used(known.template):
                # Checked again soon; until then nobody relies on it before EC2 confirms it.
                known.used_at = now - TEMPLATE_FRESH_SECONDS
                return
            await delete(self.ports.cloud, known.template)
            self._known.pop(name, None)

    async def _is_used(self, template: LaunchTemplate) -> bool:
        if await self.use.is_recent(template.name):
            return True
        return template.id in await used_by_launches(self.ports.kube)

    def _remember(self, name: str, known: _Known) -> None:
        if name not in self._known and len(self._known) >= MOST_TEMPLATES_KNOWN:
            self.forget()
        self._known[name] = known

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())


async def delete(cloud: Cloud, template: LaunchTemplate) -> None:
    """From EC2. One that is gone already is fine."""
    await cloud.launch_templates.delete(template)
    log.debug("deleted launch template", launch_template_name=template.name, id=template.id)


def _log_created(template: LaunchTemplate) -> None:
    """LCH-26, in each generation's words."""
    id_key = "id" if template.name.startswith(NAME_PREFIX_V1) else "launch-template-id"
    log.debug(
        "created launch template", **{"launch-template-name": template.name, id_key: template.id}
    )


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
        user_data = await self._user_data(machine, node_class, variant)
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

    async def _user_data(self, machine: Machine, node_class: NodeClass, variant: Variant) -> str:
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
            max_pods=variant.max_pods,
            kubelet=with_reserved(kubelet, variant.reserved),
            user_data=node_class.user_data,
            service_cidr=cluster.service_cidr,
            raid0_instance_store=node_class.instance_store_policy == "RAID0",
        )
        return render(node_class.ami_family, bootstrap)


def with_reserved(kubelet: Mapping[str, object], reserved: ReservedTexts) -> dict[str, object]:
    """The kubelet's settings with quantities in the place of expressions."""
    found, _ = parted(kubelet)
    for name, resource, quantity in reserved:
        written = found.get(name)
        others = written if isinstance(written, Mapping) else {}
        found[name] = {**others, resource: quantity}
    return found


def _users_own(template: LaunchTemplate, desired: dict[Variant, frozenset[str]]) -> Template:
    """The template that the user keeps, for every type that its image suits (T-07)."""
    (image,) = {variant.image for variant in desired}
    return Template(template.id, template.version, image, frozenset().union(*desired.values()))
