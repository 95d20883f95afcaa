"""A companion that a library would only like to have stays out of a service, and can still be used elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys
import shared.log
left_out = "rich" not in sys.modules
import rich.console
print(json.dumps([left_out, rich.console.Console is not None]))
"""


def test_a_service_does_not_carry_rich_and_the_command_line_can() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    assert json.loads(done.stdout) == [True, True]
