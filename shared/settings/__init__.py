"""Settings of the services, and their reading. ``python -m services.<name> --help`` prints them."""

from shared.settings.console import ConsoleSettings
from shared.settings.reading import AT_START, apply, describe, read, read_early
from shared.settings.services.base import AwsSettings, ServiceSettings
from shared.settings.services.interruption import InterruptionSettings
from shared.settings.services.launcher import LauncherSettings
from shared.settings.services.scheduler import SchedulerSettings
from shared.settings.services.terminator import TerminatorSettings
from shared.settings.services.watcher import WatcherSettings

__all__ = [
    "AT_START",
    "AwsSettings",
    "ConsoleSettings",
    "InterruptionSettings",
    "LauncherSettings",
    "SchedulerSettings",
    "ServiceSettings",
    "TerminatorSettings",
    "WatcherSettings",
    "apply",
    "describe",
    "read",
    "read_early",
]
