"""The end of an EC2NodeClass: it waits for its NodeClaims, then takes what was made for it in AWS along (EC-20).

What may go wrong: IAM or EC2 refuse a deletion. The finalizer stays then, and the next refresh tries again; each step
may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.launcher.launch_template.controller import delete, used_by_launches
from services.launcher.node_class.instance_profiles import InstanceProfiles
from services.launcher.ports import Ports
from shared.api.core.references import to_object
from shared.cloud.ec2.ownership import cluster_tag
from shared.domain import labels as keys
from shared.errors import Conflict, NotFound
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from shared.log import get_logger

log = get_logger(__name__)

WAITING_SECONDS = 600.0
"""How often the event is repeated (EC-20)."""
MOST_NAMED = 5
Json = Mapping[str, Any]


def is_held(raw: Json) -> bool:
    """Is this class being deleted, and waits for us?"""
    meta = raw["metadata"]
    return bool(meta.get("deletionTimestamp")) and keys.CLASS_FINALIZER in _finalizers(raw)


def with_finalizer(raw: Json) -> list[str] | None:
    """The finalizers to write, None when ours is there already or it is too late."""
    if raw["metadata"].get("deletionTimestamp") or keys.CLASS_FINALIZER in _finalizers(raw):
        return None
    return [*_finalizers(raw), keys.CLASS_FINALIZER]


def _finalizers(raw: Json) -> list[str]:
    return list(raw["metadata"].get("finalizers") or ())


def uses(claim: Json, node_class: str) -> bool:
    """Does this NodeClaim, however it was written, name the class?"""
    spec = claim.get("spec")
    reference = spec.get("nodeClassRef") if isinstance(spec, Mapping) else None
    named = reference.get("name") if isinstance(reference, Mapping) else None
    labels = claim["metadata"].get("labels") or {}
    return bool(node_class in (named, labels.get(keys.NODE_CLASS)))


@dataclass
class ClassFinalizer:
    ports: Ports
    profiles: InstanceProfiles

    async def advance(self, raw: Json) -> None:
        """Do what can be done now for a class that ``is_held``."""
        name = raw["metadata"]["name"]
        waiting = await self._users(name)
        if waiting:
            shown = ", ".join(waiting[:MOST_NAMED])
            more = f" and {len(waiting) - MOST_NAMED} more" if len(waiting) > MOST_NAMED else ""
            await self.ports.recorder.publish(
                to_object(raw),
                "Normal",
                "WaitingOnNodeClaimTermination",
                f"Waiting on NodeClaim termination for {shown}{more}",
                dedupe_seconds=WAITING_SECONDS,
            )
            return
        await self.profiles.delete_all(raw["metadata"]["uid"])
        if await self._delete_templates(name):
            await self._release(raw)

    async def _users(self, node_class: str) -> list[str]:
        def user(raw: Json) -> str:
            return str(raw["metadata"]["name"]) if uses(raw, node_class) else ""

        try:
            listed = await self.ports.kube.read_all(NODE_CLAIMS, user)
        except NotFound:
            return []  # this cluster has no NodeClaims at all
        return sorted(name for name in listed if name)

    async def _delete_templates(self, node_class: str) -> bool:
        """Those of the class that no open launch uses. Are all gone? (LCH-22)"""
        tags = {cluster_tag(self.ports.settings.cluster_name): "owned", keys.NODE_CLASS: node_class}
        for template in await self.ports.cloud.launch_templates.tagged(tags):
            if template.id in await used_by_launches(self.ports.kube):
                log.info("a launch still uses the class's template", node_class=node_class)
                return False
            await delete(self.ports.cloud, template)
        return True

    async def _release(self, raw: Json) -> None:
        meta = raw["metadata"]
        rest = [one for one in _finalizers(raw) if one != keys.CLASS_FINALIZER]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": rest}}
        try:
            await self.ports.kube.patch(EC2_NODE_CLASSES, meta["name"], body)
        except (NotFound, Conflict):
            log.debug("node class changed meanwhile", node_class=meta["name"])
            return
        log.info("node class is gone", node_class=meta["name"])
