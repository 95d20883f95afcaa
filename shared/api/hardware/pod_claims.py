"""``spec.resourceClaims`` of pods and pod templates -> domain records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.shapes import entries, text
from shared.domain.devices.records import PodClaim
from shared.errors import InvalidObject

Json = Mapping[str, Any]


def read_pod_claims(spec: Json, status: Json) -> tuple[PodClaim, ...]:
    """``spec.resourceClaims`` of a pod, with the claims that were made for it. Raises InvalidObject."""
    place = "status.resourceClaimStatuses"
    made = {
        text(one.get("name"), f"{place}.name"): text(
            one.get("resourceClaimName"), f"{place}.resourceClaimName"
        )
        for one in entries(status.get("resourceClaimStatuses"), place)
    }
    found = []
    for index, one in enumerate(entries(spec.get("resourceClaims"), "spec.resourceClaims")):
        field = f"spec.resourceClaims[{index}]"
        name = text(one.get("name"), f"{field}.name")
        claim = text(one.get("resourceClaimName"), f"{field}.resourceClaimName")
        template = text(one.get("resourceClaimTemplateName"), f"{field}.resourceClaimTemplateName")
        if bool(claim) == bool(template):
            message = "needs either resourceClaimName or resourceClaimTemplateName"
            raise InvalidObject(message, field=field)
        known = made.get(name, "")
        needless = bool(template) and name in made and not known
        found.append(PodClaim(name, claim or known, template, needless))
    return tuple(found)


def read_template_claims(spec: Json) -> tuple[PodClaim, ...]:
    """The same of a pod template; none where one cannot be read, because its other amounts count all the same."""
    try:
        return read_pod_claims(spec, {})
    except InvalidObject:
        return ()
