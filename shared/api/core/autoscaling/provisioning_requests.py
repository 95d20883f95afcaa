"""autoscaling.x-k8s.io/v1 ProvisioningRequest -> domain record (GAT-04)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.conditions import known_conditions
from shared.api.core.metadata import read_metadata
from shared.api.crd.model import read
from shared.api.faults import Fault, Parsed, texts_of
from shared.api.schema.autoscaling.provisioning_request import ProvisioningRequestSpec
from shared.concurrency.clock import parse_rfc3339
from shared.domain.workloads.provisioning_requests import (
    CLASSES,
    VALID_SECONDS,
    PodSet,
    ProvisioningRequest,
)

Json = Mapping[str, Any]
VALID_UNTIL, NO_RETRY = "ValidUntilSeconds", "noRetry"
_SECONDS = re.compile(r"[0-9]{1,9}")


def parse_provisioning_request(raw: Json) -> Parsed[ProvisioningRequest]:
    """The request, with its faults in the record too: its status names them. Never raises."""
    meta, written = read_metadata(raw), raw.get("metadata")
    given = written if isinstance(written, Mapping) else {}
    record = ProvisioningRequest(
        uid=meta.uid,
        namespace=given["namespace"] if isinstance(given.get("namespace"), str) else "",
        name=meta.name,
        generation=meta.generation,
        created_at=_time(given.get("creationTimestamp")),
        conditions=known_conditions(raw.get("status")),
    )
    spec, found = read(ProvisioningRequestSpec, raw.get("spec"), at=("spec",))
    faults = (*found, *_parameter_faults(spec.parameters if spec else {}))
    if spec is None:
        return Parsed(replace(record, faults=texts_of(faults)), faults)
    sets = tuple(PodSet(one.pod_template_ref.name, one.count) for one in spec.pod_sets)
    record = replace(record, class_name=spec.provisioning_class_name, pod_sets=sets)
    if faults:
        return Parsed(replace(record, faults=texts_of(faults)), faults)
    valid = spec.parameters.get(VALID_UNTIL)
    return Parsed(
        replace(
            record,
            valid_seconds=VALID_SECONDS if valid is None else float(valid),
            retries=spec.parameters.get(NO_RETRY) != "true",
        )
    )


def _time(written: object) -> float:
    try:
        return parse_rfc3339(written) if isinstance(written, str) else 0.0
    except ValueError:
        return 0.0


def _parameter_faults(parameters: Mapping[str, str]) -> list[Fault]:
    found = []
    valid, retry = parameters.get(VALID_UNTIL), parameters.get(NO_RETRY)
    if valid is not None and not _SECONDS.fullmatch(valid):
        text = f'{valid[:40]!r} is no number of seconds; write for example "3600"'
        found.append(Fault(("spec", "parameters", VALID_UNTIL), text))
    if retry not in (None, "true", "false"):
        found.append(Fault(("spec", "parameters", NO_RETRY), 'must be "true" or "false"'))
    return found


def warnings_of(raw: Json) -> list[Fault]:
    """Valid settings that have no effect."""
    spec, _ = read(ProvisioningRequestSpec, raw.get("spec"), at=("spec",))
    if spec is None:
        return []
    found = []
    if spec.provisioning_class_name not in CLASSES:
        text = f"Dovetail ignores the object; use {' or '.join(CLASSES)}"
        found.append(Fault(("spec", "provisioningClassName"), text))
    for name in sorted(spec.parameters.keys() - {VALID_UNTIL, NO_RETRY}):
        found.append(Fault(("spec", "parameters", name), "has no effect"))
    return found
