"""Refuses requests that the role of the signing service, or the role of the signing session, does not allow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from local.aws.ec2 import xml_answers
from local.aws.emulator import Emulator
from local.aws.http import protocol
from local.aws.iam.evaluation import Permission, is_allowed
from local.aws.iam.launches import templates_of
from local.aws.iam.policies import Statement, policies_of, service_of, statements
from local.aws.iam.requests import needed, needed_by_the_fleet
from local.aws.iam.resources import Resources
from local.aws.iam.sessions import session_of, statements_of_role
from local.aws.moto import patches
from local.aws.moto.state import ACCOUNT_ID
from shared.log import get_logger

log = get_logger(__name__)

ALWAYS_ALLOWED = frozenset({"sts"})
"""Actions that need no permission in AWS either: reading one's own identity and assuming a role."""
FORBIDDEN = 403
_KEY = re.compile(r"Credential=([^/]+)/")
_XML = "text/xml;charset=UTF-8"
Denial = tuple[int, str, bytes]
"""HTTP status, content type, body."""


@dataclass(frozen=True)
class Signer:
    """Whose key signed a request, and what that role may do."""

    arn: str
    allowed: tuple[Statement, ...]


class Enforcement:
    """The roles and their policies. One per emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        cluster = emulator.settings.cluster_name
        self._values = {
            "partition": "aws",
            "region": emulator.settings.region,
            "account": ACCOUNT_ID,
            "cluster": cluster,
            "node_role": f"KarpenterNodeRole-{cluster}*",
        }
        self._roles: dict[str, tuple[Statement, ...]] = {}

    def denial(self, request: protocol.Request, environ: Mapping[str, Any]) -> Denial | None:
        """The refusal of a request that its role does not allow; None when it is allowed, or when the key is not
        restricted.
        """
        key = _KEY.search(str(environ.get("HTTP_AUTHORIZATION", "")))
        if key is None or request.service in ALWAYS_ALLOWED:
            return None
        signer = self._signer(key[1])
        if signer is None:
            return None
        with self._emulator.inventory.lock:
            return self._checked(signer, request, str(environ.get("PATH_INFO", "")))

    def _signer(self, key: str) -> Signer | None:
        if service := service_of(key):
            arn = f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/dovetail-{service}/local"
            return Signer(arn, self._statements(service))
        session = session_of(key)
        return Signer(session.arn, statements_of_role(session.role_arn)) if session else None

    def _checked(self, signer: Signer, request: protocol.Request, path: str) -> Denial | None:
        resources = Resources(self._emulator, request.region)
        if denied := _first_denied(signer, needed(resources, request, path)):
            return self._refused(request, signer, denied)
        if request.action != "CreateFleet" or _is_dry_run(request):
            return None
        denied = _first_denied(signer, needed_by_the_fleet(resources, request))
        return None if denied is None else self._empty_fleet(request, resources, signer, denied)

    def _statements(self, service: str) -> tuple[Statement, ...]:
        if service not in self._roles:
            self._roles[service] = statements(policies_of(service), self._values)
        return self._roles[service]

    def _refused(self, request: protocol.Request, signer: Signer, denied: Permission) -> Denial:
        ec2 = request.service == "ec2"
        rest = request.json_protocol or request.service in ("eks", "arc-zonal-shift")
        code = (
            "UnauthorizedOperation" if ec2 else "AccessDeniedException" if rest else "AccessDenied"
        )
        content_type, body = protocol.error_answer(request, code, _denial_message(signer, denied))
        return FORBIDDEN, content_type, body

    def _empty_fleet(
        self, request: protocol.Request, resources: Resources, signer: Signer, denied: Permission
    ) -> Denial:
        """The answer when the fleet is allowed and its instances are not: as in EC2, the errors are inside a successful
        answer.
        """
        parameters = patches.parse_ec2(request.action, request.body)
        target = parameters.get("TargetCapacitySpecification") or {}
        lifecycle = target.get("DefaultTargetCapacityType") or "on-demand"
        errors = "".join(
            _error(
                template.template_id,
                str(template.version),
                override,
                lifecycle,
                _denial_message(signer, denied),
            )
            for template, overrides in templates_of(resources, parameters)
            for override in overrides
        )
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?><CreateFleetResponse xmlns="{xml_answers.NAMESPACE}">'
            f"<requestId>{xml_answers.REQUEST_ID}</requestId><fleetId>fleet-0</fleetId>"
            f"<errorSet>{errors}</errorSet><fleetInstanceSet/></CreateFleetResponse>"
        )
        return 200, _XML, body.encode()


def _is_dry_run(request: protocol.Request) -> bool:
    return request.query_parameters().get("DryRun", "").lower() == "true"


def _first_denied(signer: Signer, needed: list[Permission]) -> Permission | None:
    return next((one for one in needed if not is_allowed(signer.allowed, one)), None)


def _denial_message(signer: Signer, denied: Permission) -> str:
    log.warning("denied", who=signer.arn, action=denied.action, resource=denied.resource)
    return (
        f"You are not authorized to perform this operation. User: {signer.arn} is not authorized to perform: "
        f"{denied.action} on resource: {denied.resource} because no identity-based policy allows the "
        f"{denied.action} action"
    )


def _error(
    template_id: str, version: str, override: Mapping[str, Any], lifecycle: str, message: str
) -> str:
    named = {
        "InstanceType": "instanceType",
        "SubnetId": "subnetId",
        "AvailabilityZone": "availabilityZone",
    }
    named_fields = "".join(
        f"<{tag}>{escape(str(override[key]))}</{tag}>"
        for key, tag in named.items()
        if override.get(key)
    )
    return (
        "<item><launchTemplateAndOverrides><launchTemplateSpecification>"
        f"<launchTemplateId>{template_id}</launchTemplateId><version>{version}</version>"
        f"</launchTemplateSpecification><overrides>{named_fields}</overrides></launchTemplateAndOverrides>"
        f"<lifecycle>{lifecycle}</lifecycle><errorCode>UnauthorizedOperation</errorCode>"
        f"<errorMessage>{escape(message)}</errorMessage></item>"
    )
