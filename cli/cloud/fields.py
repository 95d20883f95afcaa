"""The options of ``dovetail cloud`` behind the fields of the emulator's control endpoint: its refusals name fields, and
people typed options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from shared.errors import ConfigurationError

OPTIONS: Mapping[str, str] = {
    "burst": "--burst",
    "callsPerSecond": "--rate",
    "copies": "--copies",
    "count": "--calls",
    "delaySeconds": "--delay",
    "describeLagSeconds": "SECONDS",
    "endsInSeconds": "--ends-in",
    "eventInSeconds": "--in",
    "freeAddresses": "FREE",
    "give": "GIVE",
    "heartbeatTimeoutSeconds": "--heartbeat-timeout",
    "impairedForSeconds": "--since",
    "instanceId": "INSTANCES",
    "instanceIds": "INSTANCES",
    "instanceType": "INSTANCE_TYPE",
    "noticeSeconds": "--notice",
    "onDemandVcpus": "--on-demand",
    "percent": "--percent",
    "placementGroup": "--placement-group",
    "seconds": "--seconds",
    "skip": "--skip",
    "spotVcpus": "--spot",
    "status": "--status",
    "where.percent": "--percent",
}
"""Field -> the option or argument that sets it."""
OF_PATH: Mapping[str, Mapping[str, str]] = {
    "fleets": {"count": "--count"},
    "messages": {"count": "--copies"},
    "reservations": {"count": "COUNT", "zone": "ZONE"},
    "zonal-shift": {"zone": "ZONE"},
}
"""The same where a path of the endpoint has another option for a field."""
ADVICE = {
    "an id of GET /_dovetail/instances": "an id of `dovetail cloud instances`",
    "set foreign to true": "use --foreign",
}


def worded(text: str, path: str) -> str:
    """A refusal of this path in the words of the command line."""
    text = text.removeprefix("body: ")
    for wire, advice in ADVICE.items():
        text = text.replace(wire, advice)
    options = {**OPTIONS, **OF_PATH.get(path, {})}
    # A message begins with the field, or is about one whose name no plain word has.
    for name in sorted(options, key=len, reverse=True):
        plain = name.isalpha() and name.islower()
        pattern = rf"^{name}(?=:)" if plain else rf"(?<![\w.-]){re.escape(name)}(?!\w)"
        text = re.sub(pattern, options[name], text)
    return text


def check_numbers(body: Any, path: str, field: str = "") -> None:
    """Raises ConfigurationError for a number that JSON does not have: nan, inf."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            check_numbers(value, path, f"{field}.{name}" if field else name)
    elif isinstance(body, float) and not math.isfinite(body):
        raise ConfigurationError(f"{worded(f'{field}: {body} is not a finite number', path)}")
