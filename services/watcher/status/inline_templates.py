"""AWS settings written into a Provisioner (``spec.provider``, T-13) live on as an AWSNodeTemplate that belongs to it.

The template is ours to write: it follows the Provisioner, and goes with it through its owner reference. One of the same
name that somebody else made is left alone. It is looked at every half a minute, so what others do to it is mended. What
may go wrong: two writers at once (compare-and-set, tried again from a new read), a server that refuses the template or
the call (reported as a fault of the Provisioner; the others go on).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from shared.api.core.references import to_object
from shared.api.v1alpha5.provisioners import inline_template, inline_template_name
from shared.concurrency.clock import Clock
from shared.errors import AlreadyExists, Conflict, InvalidObject, NotFound, Unauthorized
from shared.kube.client import Kube
from shared.kube.reading import or_none
from shared.kube.recorder import Recorder
from shared.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from shared.log import get_logger

log = get_logger(__name__)

RECHECK_SECONDS = 30.0
TRIES = 3
MOST_REMEMBERED = 1000
KEPT = "NodeTemplateKept"
REMOVED = "NodeTemplateRemoved"
Json = Mapping[str, Any]
Identity = tuple[str, int]
"""Uid and generation."""
Value = TypeVar("Value")


class InlineTemplates:
    """Keeps the templates of all Provisioners. One caller at a time for one Provisioner."""

    def __init__(self, kube: Kube, recorder: Recorder, clock: Clock) -> None:
        self._kube = kube
        self._recorder = recorder
        self._clock = clock
        self._settled: dict[str, tuple[Identity, float]] = {}
        """By Provisioner: which one was in order, and until when (monotonic) that is believed."""
        self._written: dict[str, tuple[Json, int]] = {}
        """By template: spec as written and the generation it became, for the server may add or drop fields."""

    async def keep(self, raw: Json) -> str:
        """Create, update or delete the template of this Provisioner. What is wrong with ``spec.provider``, or "".

        Cheap while nothing changes. Raises TransientError: call again later.
        """
        name, now = raw["metadata"]["name"], self._clock.monotonic()
        identity, until = self._settled.get(name, (None, 0.0))
        if raw["metadata"].get("deletionTimestamp") or (identity == _identity(raw) and now < until):
            return ""
        problem = await self._try(raw)
        if not problem:
            _remember(self._settled, name, (_identity(raw), now + RECHECK_SECONDS))
        return problem

    async def _try(self, raw: Json) -> str:
        try:
            for _ in range(TRIES):
                try:
                    return await self._step(raw)
                except (AlreadyExists, Conflict, NotFound) as error:
                    log.debug("overtaken by a change", error=error.message)
        except InvalidObject as error:
            return f"its AWSNodeTemplate is refused: {error.message}"
        except Unauthorized as error:
            return f"its AWSNodeTemplate cannot be kept: {error.message}"
        return "somebody else keeps changing its AWSNodeTemplate"

    async def _step(self, raw: Json) -> str:
        """One attempt from a new read. Raises AlreadyExists, Conflict and NotFound when it was overtaken."""
        name = inline_template_name(raw["metadata"]["name"])
        desired = inline_template(raw)
        current = await or_none(self._kube.get(AWS_NODE_TEMPLATES, name))
        if desired is None:
            await self._do_without(raw, current)
            return ""
        if current is None:
            await self._note(raw, await self._kube.create(AWS_NODE_TEMPLATES, desired), desired)
            return ""
        if not _belongs(current, raw):
            return (
                f"AWSNodeTemplate {name} is there already and does not belong to "
                "this Provisioner; delete it, or name it in spec.providerRef instead"
            )
        if current["metadata"].get("deletionTimestamp"):
            return f"its AWSNodeTemplate {name} is being deleted"
        if not self._is_kept(desired, current):
            changed = _changed(current, desired)
            await self._note(raw, await self._kube.replace(AWS_NODE_TEMPLATES, changed), desired)
        return ""

    def _is_kept(self, desired: Json, current: Json) -> bool:
        meta = current["metadata"]
        written = (desired["spec"], meta.get("generation"))
        same = current.get("spec") == desired["spec"] or self._written.get(meta["name"]) == written
        return same and _owner_uids(current) == _owner_uids(desired)

    async def _note(self, raw: Json, stored: Json, desired: Json) -> None:
        name = stored["metadata"]["name"]
        _remember(self._written, name, (desired["spec"], stored["metadata"].get("generation")))
        log.info("kept node template", provisioner=raw["metadata"]["name"], template=name)
        text = f"spec.provider is kept in AWSNodeTemplate {name}"
        await self._recorder.publish(_reference(raw), "Normal", KEPT, text)

    async def _do_without(self, raw: Json, current: dict[str, Any] | None) -> None:
        """Remove our template, but only when there really are no settings in line: a fault in them is mended soon."""
        spec = raw.get("spec")
        if not isinstance(spec, Mapping) or spec.get("provider") is not None:
            return
        if current is None or not _belongs(current, raw):
            return
        if not current["metadata"].get("deletionTimestamp"):
            await self._remove(raw, current["metadata"])

    async def _remove(self, raw: Json, meta: Json) -> None:
        name = meta["name"]
        await self._kube.delete(
            AWS_NODE_TEMPLATES, name, uid=meta["uid"], resource_version=meta["resourceVersion"]
        )
        log.info("removed node template", provisioner=raw["metadata"]["name"], template=name)
        text = f"AWSNodeTemplate {name} is removed: spec.provider is gone"
        await self._recorder.publish(_reference(raw), "Normal", REMOVED, text)


def _identity(raw: Json) -> Identity:
    return raw["metadata"]["uid"], raw["metadata"].get("generation") or 0


def _remember(memory: dict[str, Value], name: str, value: Value) -> None:
    if len(memory) >= MOST_REMEMBERED:
        memory.clear()
    memory[name] = value


def _reference(raw: Json) -> dict[str, str]:
    return to_object({"apiVersion": PROVISIONERS.api_version, "kind": PROVISIONERS.kind, **raw})


def _owners(template: Json) -> list[Json]:
    return template["metadata"].get("ownerReferences") or []


def _owner_uids(template: Json) -> list[str]:
    return [owner["uid"] for owner in _owners(template)]


def _belongs(template: Json, provisioner: Json) -> bool:
    """By name: a Provisioner that was deleted and made again goes on with the template of its predecessor."""
    name = provisioner["metadata"]["name"]
    return any(
        (owner["kind"], owner["name"]) == (PROVISIONERS.kind, name)
        and owner["apiVersion"].partition("/")[0] == PROVISIONERS.group
        for owner in _owners(template)
    )


def _changed(current: Json, desired: Json) -> dict[str, Any]:
    """``current`` with what ``desired`` says; its resource version makes the write a compare-and-set."""
    meta, ours = current["metadata"], desired["metadata"]
    annotations = {**(meta.get("annotations") or {}), **ours["annotations"]}
    owned = {**meta, "annotations": annotations, "ownerReferences": ours["ownerReferences"]}
    return {**current, "metadata": owned, "spec": desired["spec"]}
