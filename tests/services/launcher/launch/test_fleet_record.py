"""LaunchRecords as they are stored: one of another form harms nobody but its own machines (F1)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.launcher.launch.fleet import LaunchRecord, Subject, read_record, record_body
from services.launcher.launch.limits import room_of_records
from services.launcher.launch_template.controller import templates_of
from tests.support.planning.builders import make_catalogue

OVERRIDE = {"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a", "SubnetId": "subnet-1"}
CONFIGURATION = {
    "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"},
    "Overrides": [OVERRIDE],
}
RECORD = LaunchRecord(
    "lr-1", (Subject("Machine/a", "uid-a"),), {"LaunchTemplateConfigs": [CONFIGURATION]}, 1000.0
)
BROKEN: dict[str, Any] = {
    "no list of configurations": {"LaunchTemplateConfigs": "none"},
    "no configuration": {"LaunchTemplateConfigs": ["none"]},
    "no overrides": {"LaunchTemplateConfigs": [{**CONFIGURATION, "Overrides": 5}]},
    "no override": {"LaunchTemplateConfigs": [{**CONFIGURATION, "Overrides": ["none"]}]},
    **{
        f"no {field}": {
            "LaunchTemplateConfigs": [
                {**CONFIGURATION, "Overrides": [{k: v for k, v in OVERRIDE.items() if k != field}]}
            ]
        }
        for field in OVERRIDE
    },
    "no target": {"LaunchTemplateConfigs": [CONFIGURATION], "TargetCapacitySpecification": "one"},
}


def test_what_is_written_is_read() -> None:
    assert read_record(record_body(RECORD)) == RECORD
    grouped = replace(RECORD, placement_group="pg-1")
    assert read_record(record_body(grouped)) == grouped
    assert templates_of(record_body(RECORD)) == {"lt-1"}
    assert room_of_records([RECORD], {}, make_catalogue(())) == {}


@pytest.mark.parametrize("name", BROKEN)
def test_a_request_of_another_form_is_told_at_once(name: str) -> None:
    """Whoever looks at the records passes over this one, and lets its machines be."""
    raw = record_body(RECORD)
    raw["spec"]["request"] = BROKEN[name]
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        read_record(raw)
    assert templates_of(raw) <= {"lt-1"}, "and the sweep of templates goes on"
