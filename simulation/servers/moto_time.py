"""moto's present: every timestamp that moto writes is the simulated time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from moto.core import utils

from shared.concurrency.clock import Clock

_UTCNOW = utils.utcnow


def install(clock: Clock) -> None:
    """Replace moto's function that reads the time, also where other modules of moto imported it by name."""

    def utcnow() -> datetime:
        return datetime.fromtimestamp(clock.now(), UTC).replace(tzinfo=None)

    earlier = {_UTCNOW, utils.utcnow}
    for name, module in sys.modules.copy().items():  # other threads import meanwhile
        if name.startswith("moto.") and getattr(module, "utcnow", None) in earlier:
            module.utcnow = utcnow  # type: ignore[attr-defined]
