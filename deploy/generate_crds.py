"""Writes the kinds (deploy/crds, deploy/chart-crds, docs/reference.md) and the rules of deploy/iam: ``make crds``.

A folder as argument takes the place of the repository. Files of kinds that are gone stay: a test names them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from shared.api.crd.definitions import chart_crd_text, crd_file, crd_text
from shared.api.crd.field_tables import reference_text
from shared.api.schema.catalogue import KINDS
from shared.cloud.event_rules import EVENT_RULES, EventRule

REPOSITORY = Path(__file__).resolve().parents[1]
CLOUDFORMATION = "deploy/iam/cloudformation.yaml"
FIRST, AFTER = "  HealthEventsRule:\n", "  NodeLaunchPolicy:\n"
"""Of the template the part between these lines is made here: it has no way to read rules.json."""
RULE = """  {name}Rule:
    Type: AWS::Events::Rule
    Properties:
      Name: !Sub "${{ClusterName}}-{name}"
      State: ENABLED
      EventPattern:
        source: [{source}]
        detail-type: [{detail_type}]
      Targets:
        - Id: KarpenterInterruptionQueueTarget
          Arn: !GetAtt InterruptionQueue.Arn
"""


def generated() -> Iterator[tuple[str, str]]:
    """(path below the repository, content) of every generated file."""
    for kind in KINDS:
        yield f"deploy/crds/{crd_file(kind.INFO)}", crd_text(kind)
        yield f"deploy/chart-crds/templates/{crd_file(kind.INFO)}", chart_crd_text(kind)
    yield "docs/reference.md", reference_text(KINDS)
    patterns = {rule.name: _pattern(rule) for rule in EVENT_RULES}
    yield "deploy/iam/rules.json", json.dumps(patterns, indent=2) + "\n"
    yield CLOUDFORMATION, _with_rules((REPOSITORY / CLOUDFORMATION).read_text(encoding="utf-8"))


def _pattern(rule: EventRule) -> dict[str, list[str]]:
    return {"source": [rule.source], "detail-type": [rule.detail_type]}


def _with_rules(template: str) -> str:
    before, rest = template.split(FIRST)
    after = rest.split(AFTER)[1]
    return before + "".join(RULE.format(**rule._asdict()) for rule in EVENT_RULES) + AFTER + after


def write(root: Path) -> None:
    """Write every file below ``root``."""
    for name, content in generated():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY)
