"""What a check found, and what all checks know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from shared.concurrency.clock import Clock
from shared.kube.client import Kube

State = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True)
class Finding:
    """``found``: one sentence. ``mend``: a command, or what to do; empty when all is well."""

    check: str
    state: State
    found: str = ""
    mend: str = ""


def ok(check: str, found: str = "") -> Finding:
    """The check passed."""
    return Finding(check, "ok", found)


def failed(check: str, found: str, mend: str) -> Finding:
    """The check did not pass."""
    return Finding(check, "failed", found, mend)


def not_checked(check: str, why: str, mend: str) -> Finding:
    """Nothing is known, so it does not count as passed."""
    return Finding(check, "not checked", why, mend)


@dataclass(frozen=True)
class Installation:
    """``kube``: a client of the cluster, whether it answers or not. ``namespace``: Dovetail's."""

    variables: Mapping[str, str]
    kube: Kube
    namespace: str
    clock: Clock

    @property
    def services(self) -> dict[str, str]:
        """Name of a service -> its address."""
        return {
            name.removeprefix("DOVETAIL_").removesuffix("_URL").lower(): url
            for name, url in sorted(self.variables.items())
            if name.startswith("DOVETAIL_") and name.endswith("_URL") and url
        }

    @property
    def cluster(self) -> str:
        """CLUSTER_NAME; empty when it is not known here."""
        return self.variables.get("CLUSTER_NAME", "")


Check = Callable[[Installation], AsyncIterator[Finding]]
