"""How long a pod runs before it ends by itself. No program runs in it, so the time comes from its manifest.

The annotation ``local.dovetail.sh/run-seconds`` sets it for any pod. Without it, a pod that is not restarted ends when
the ``sleep`` commands of its containers would (``sleep 120``, ``sh -c 'work; sleep 2m'``), and after one second when
its commands contain no sleep. A pod without commands is assumed to be a server and runs until it is deleted; so does
``sleep infinity``.
"""

from __future__ import annotations

import re
from typing import Any

from local.cluster.control_plane.informers import Obj
from shared.log import get_logger

log = get_logger(__name__)

RUN_SECONDS = "local.dovetail.sh/run-seconds"
"""Annotation: the pod succeeds after this many seconds of running."""
QUICK_SECONDS = 1.0
"""Run time of a command without a sleep."""
_SLEEP = re.compile(
    r"(?<![\w./-])(?:/\w+)*/?sleep((?:\s+(?:\d+(?:\.\d+)?[smhd]?|infinity))+)(?![\w.])"
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def run_seconds(pod: Obj) -> float | None:
    """The seconds that the pod runs before it succeeds; None: until it is deleted."""
    text = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS)
    try:
        if text is not None:
            return max(float(text), 0.0)
    except ValueError:
        log.warning("annotation is not a number of seconds", annotation=RUN_SECONDS, value=text)
    if pod["spec"].get("restartPolicy", "Always") == "Always":
        return None
    times = [_container_seconds(one) for one in pod["spec"].get("containers") or ()]
    known = [seconds for seconds in times if seconds is not None]
    return max(known, default=None) if len(known) == len(times) else None


def _container_seconds(container: dict[str, Any]) -> float | None:
    words = [str(word) for field in ("command", "args") for word in container.get(field) or ()]
    if not words:
        return None
    slept = _SLEEP.findall(" ".join(words))
    if any("infinity" in amounts for amounts in slept):
        return None
    return sum(_seconds(amounts) for amounts in slept) if slept else QUICK_SECONDS


def _seconds(amounts: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _AMOUNT.findall(amounts))
