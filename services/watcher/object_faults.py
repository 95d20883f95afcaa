"""Keeps a fault of our code in one object from stopping the work on all others.

It is counted, and logged once per version of the object: what watches or timers show again must not fill the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from services.watcher.conversion import Kind
from shared.errors import Unauthorized
from shared.kube.informer import Key
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)


class ObjectVersion(NamedTuple):
    kind: Kind
    key: Key
    version: str


@dataclass
class Outcome:
    failed: bool = False


@dataclass
class ObjectFaults:
    """The failures that were logged, by object."""

    metrics: Metrics
    _logged: dict[tuple[str, Key], str] = field(default_factory=dict)
    """Kubernetes kind and object -> the version that was logged."""

    @contextmanager
    def contained(self, subject: ObjectVersion) -> Iterator[Outcome]:
        """What the block raises ends the block alone. Raises Unauthorized: that is no fault of one object."""
        outcome, kind = Outcome(), subject.kind.identity
        try:
            yield outcome
        except Unauthorized:
            raise
        except Exception:
            outcome.failed = True
            self.metrics.watch_failures.labels(kind).inc()
            if self._logged.get((kind, subject.key)) != subject.version:
                self._logged[kind, subject.key] = subject.version
                log.exception(
                    "object is unusable because of a fault of Dovetail, please report it",
                    kind=kind,
                    object=str(subject.key),
                    version=subject.version,
                )

    def forget(self, kind: Kind, key: Key) -> None:
        self._logged.pop((kind.identity, key), None)
