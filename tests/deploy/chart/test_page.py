"""docs/operating/helm.md: its lists beside the files they repeat. tests/docs/test_block_runs.py types its commands."""

from __future__ import annotations

import json
import re

from deploy.generate_manifests import PAGE, REPOSITORY

TEXT = (REPOSITORY / PAGE).read_text()


def test_the_roles_have_the_policies_of_their_services() -> None:
    stated = {one: words.split() for one, words in re.findall(r"(?m)^role (\w+) (.*)$", TEXT)}
    wanted = json.loads((REPOSITORY / "deploy" / "iam" / "roles.json").read_text())
    assert stated == {name: wanted[name] for name in ("launcher", "terminator", "interruption")}
