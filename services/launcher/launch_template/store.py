"""The launch templates that exist in EC2: made when they are missing, deleted when nobody uses them (LCH-22, LCH-25).

A minute after the last use of a template by any launcher, the next sweep deletes it from EC2, unless the record of a
launch in progress names it. Those of an earlier incarnation are found by their tags, and go the same way.

What may go wrong: a launcher takes a template in the moment between the last check and the deletion. EC2 then refuses
the launch, and it is made again (LCH-25).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from services.launcher.launch_template.content import NAME_PREFIX_V1, name_prefix
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import cluster_tag
from shared.cloud.ec2.records import LaunchTemplate
from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.redis.mirror.template_use import UNUSED_SECONDS, TemplateUse
from shared.settings import LauncherSettings

log = get_logger(__name__)

TEMPLATE_FRESH_SECONDS = 50.0
"""How long a process believes that a template is there: less, for clocks differ."""
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
    """Knows templates by name."""

    kube: Kube
    cloud: Cloud
    clock: Clock
    settings: LauncherSettings
    use: TemplateUse
    _known: dict[str, _Known] = field(default_factory=dict)
    _complete: bool = False
    """Every template with our tags is known: found since the start, or since they were forgotten."""
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def ensure(self, name: str, data: dict[str, Any], tags: dict[str, str]) -> LaunchTemplate:
        """The template of this name, made now if there is none. Raises what EC2 says against it."""
        async with self._lock(name):
            known, now = self._known.get(name), self.clock.monotonic()
            await self.use.record(name)
            if known is None or now - known.used_at >= TEMPLATE_FRESH_SECONDS:
                template, is_new = await self.cloud.launch_templates.ensure(name, data, tags)
                if is_new:
                    _log_created(template)
                known = _Known(template, now)
                self._remember(name, known)
            known.used_at = now
            return known.template

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
        cluster = self.settings.cluster_name
        found = await self.cloud.launch_templates.tagged({cluster_tag(cluster): "owned"})
        ours = (NAME_PREFIX_V1, name_prefix(cluster))
        now = self.clock.monotonic()
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
        now = self.clock.monotonic()
        return [n for n, known in self._known.items() if now - known.used_at >= UNUSED_SECONDS]

    async def _end(self, name: str) -> None:
        async with self._lock(name):
            known, now = self._known.get(name), self.clock.monotonic()
            if known is None or now - known.used_at < UNUSED_SECONDS:
                return
            if await self._is_used(known.template):
                # Checked again soon; until then nobody relies on it before EC2 confirms it.
                known.used_at = now - TEMPLATE_FRESH_SECONDS
                return
            await delete(self.cloud, known.template)
            self._known.pop(name, None)

    async def _is_used(self, template: LaunchTemplate) -> bool:
        if await self.use.is_recent(template.name):
            return True
        return template.id in await used_by_launches(self.kube)

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
    said = "id" if template.name.startswith(NAME_PREFIX_V1) else "launch-template-id"
    log.debug(
        "created launch template", **{"launch-template-name": template.name, said: template.id}
    )
