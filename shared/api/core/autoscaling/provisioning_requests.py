"""autoscaling.x-k8s.io/v1 ProvisioningRequest -> domain record (GAT-04)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shared.api.conditions import known_conditions
from shared.api.core.metadata import read_metadata
from shared.api.crd.model import read
from shared.api.faults import Fault, Parsed, texts_of
from shared.api.schema.autoscaling.provisioning_request import ProvisioningRequestSpec
from shared.concurrency.clock import parse_rfc3339
from shared.domain.workloads.provisioning_requests import (
    BOOK_PARTIAL,
    CHECK_ONLY,
    CLASSES,
    VALID_SECONDS,
    PodSet,
    ProvisioningRequest,
)

Json = Mapping[str, Any]
VALID_UNTIL, NO_RETRY, PARTIAL = "ValidUntilSeconds", "noRetry", "partialCapacityCheck"
DETAILS, FITTING = "provisioningClassDetails", "schedulablePodSets"
"""Field of the status, and its key for the pod sets for which a check found room."""
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
        fitting=_fitting(raw.get("status")),
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
            partial=spec.parameters.get(PARTIAL, ""),
        )
    )


def fitting_text(templates: Sequence[str]) -> str:
    """The detail of the status for these templates of pod sets."""
    return json.dumps(list(templates), separators=(",", ":"))


def _fitting(status: object) -> tuple[str, ...]:
    """Nothing for a status that somebody else wrote in another form."""
    details = status.get(DETAILS) if isinstance(status, Mapping) else None
    written = details.get(FITTING) if isinstance(details, Mapping) else None
    try:
        found = json.loads(written) if isinstance(written, str) else []
    except ValueError:
        return ()
    listed = found if isinstance(found, list) else []
    return tuple(one for one in listed if isinstance(one, str))


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
    partial = parameters.get(PARTIAL)
    if partial not in (None, CHECK_ONLY, BOOK_PARTIAL):
        text = f'must be "{CHECK_ONLY}" or "{BOOK_PARTIAL}"'
        found.append(Fault(("spec", "parameters", PARTIAL), text))
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
    for name in sorted(spec.parameters.keys() - {VALID_UNTIL, NO_RETRY, PARTIAL}):
        found.append(Fault(("spec", "parameters", name), "has no effect"))
    return found
