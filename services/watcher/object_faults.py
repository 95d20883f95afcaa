"""Keeps a fault of our code in one object from stopping the work on all others.

It is counted, and logged once per version of the object: what watches or timers show again must not fill the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
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
class ObjectFaults:
    """The failures that were logged, by object."""

    metrics: Metrics
    _logged: dict[tuple[str, Key], str] = field(default_factory=dict)
    """Kubernetes kind and object -> the version that was logged."""

    def contained(self, subject: ObjectVersion) -> _Contained:
        """What the block raises ends the block alone. Raises Unauthorized: that is no fault of one object."""
        return _Contained(self, subject)

    def note(self, subject: ObjectVersion) -> None:
        """Our code failed on this object: what is raised at present says how."""
        kind = subject.kind.identity
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


class _Contained:
    """A class, because a generator takes three times as long, several times for each change of each object."""

    __slots__ = ("_faults", "_subject", "failed")

    def __init__(self, faults: ObjectFaults, subject: ObjectVersion) -> None:
        self._faults, self._subject = faults, subject
        self.failed = False

    def __enter__(self) -> _Contained:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, Unauthorized):
            return False
        self.failed = True
        self._faults.note(self._subject)
        return True
