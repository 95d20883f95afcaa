"""Updates the settings of a running service from the ConfigMap ``karpenter-global-settings`` (OPS-04).

The ConfigMap is read once before the bus opens and then every 15 s; changes appear in ``env.settings``, which all parts
of the service share. A fault never stops the service: the ConfigMap is optional, and an invalid or unreadable one
leaves the last valid values in place (at start: the defaults), with a warning in the log and an event on the ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from shared.api.core.references import to_object
from shared.api.faults import texts_of
from shared.api.v1alpha5.global_settings import NAME, GlobalSettings, parse_global_settings
from shared.errors import ConfigurationError, DovetailError, TransientError
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import CONFIG_MAPS
from shared.log import get_logger
from shared.settings import AT_START, ServiceSettings, apply, read

log = get_logger(__name__)

REFRESH_SECONDS = 15.0
INVALID = "ValidationFailed"
LONGEST_PROBLEM = 1000
MOST_NOTES = 20
Config = TypeVar("Config", bound=ServiceSettings)


@dataclass(eq=False)
class LiveSettings(Generic[Config]):
    """The settings of one service. ``problem`` is why the ConfigMap is not applied; "" while it is."""

    settings: Config = field(init=False)
    kind: type[Config]
    kube: Kube
    recorder: Recorder
    namespace: str
    own: Mapping[str, str] = field(default_factory=dict)
    """Values by field that take precedence over all others (``shared.settings.own``)."""
    problem: str = field(default="", init=False)
    _version: str | None = field(default=None, init=False)

    async def start(self) -> None:
        """Create ``settings``. Raises TransientError, and ConfigurationError without a cluster name."""
        raw = await self._fetch()
        parsed = parse_global_settings(raw or {})
        given = parsed.record.present() if parsed.record else {}
        try:
            # The cluster name and the defaults suffice to start, even if the ConfigMap is otherwise invalid.
            self.settings = read(
                self.kind, {name: given[name] for name in AT_START if name in given}, **self.own
            )
        except ConfigurationError as error:
            wrong = "; ".join(texts_of(parsed.faults)) or self.problem
            raise ConfigurationError(
                "the name of the cluster is missing: set CLUSTER_NAME, or aws.clusterName in "
                f"ConfigMap {self.namespace}/{NAME}{f' ({wrong})' if wrong else ''}. "
                "See --help for all variables"
            ) from error
        await self._apply_changed(raw)

    async def refresh(self) -> None:
        """Read the ConfigMap again. Raises TransientError; the settings are then unchanged, and the caller retries."""
        await self._apply_changed(await self._fetch())

    async def _fetch(self) -> dict[str, Any] | None:
        """The ConfigMap; {} when there is none; None when the service may not read it.

        A list with a name selector instead of a get, which would answer 404 in most clusters on every refresh.
        """
        try:
            found = await self.kube.list(
                CONFIG_MAPS, self.namespace, field_selector=f"metadata.name={NAME}"
            )
            return found.items[0] if found.items else {}
        except TransientError:
            raise
        except DovetailError as error:
            self._version = None
            await self._report(error.message, {})
            return None

    async def _apply_changed(self, raw: dict[str, Any] | None) -> None:
        """Validate a new or changed ConfigMap, and apply it when it is valid."""
        if raw is None:
            return
        version = str((raw.get("metadata") or {}).get("resourceVersion", ""))
        if version == self._version:
            return
        self._version = version
        parsed = parse_global_settings(raw)
        if parsed.record is None:
            await self._report("; ".join(texts_of(parsed.faults)), raw)
            return
        if parsed.record.notes:
            log.info("settings without effect", keys=texts_of(parsed.record.notes[:MOST_NOTES]))
        await self._report(self._adopt(parsed.record), raw)

    def _adopt(self, record: GlobalSettings) -> str:
        """Apply ``record`` to ``settings``. Returns the fault, or ""."""
        ours = {name: getattr(self.settings, name) for name in AT_START}
        try:
            fresh = read(self.kind, ours | record.present(), **self.own)
        except ConfigurationError as error:
            return error.message
        waiting = [name for name in AT_START if getattr(fresh, name) != ours[name]]
        if waiting:
            log.warning("settings that need a new start have changed", names=waiting)
        if changed := apply(self.settings, fresh):
            log.info("settings changed", names=changed)
        return ""

    async def _report(self, problem: str, raw: dict[str, Any]) -> None:
        """Report a changed problem of the ConfigMap once: in the log, and as an event on it."""
        if problem == self.problem:
            return
        self.problem = problem
        if not problem:
            log.info("the ConfigMap is heeded again", name=NAME)
            return
        log.warning("keeping the last good settings", name=NAME, problem=problem[:LONGEST_PROBLEM])
        if raw:
            about = to_object(raw) | {"namespace": self.namespace}
            await self.recorder.publish(about, "Warning", INVALID, problem[:LONGEST_PROBLEM])
