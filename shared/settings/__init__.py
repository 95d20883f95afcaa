"""Settings of the services, and their reading. ``python -m services.<name> --help`` prints them."""

from shared.settings.console import ConsoleSettings
from shared.settings.reading import AT_START, apply, describe, read, read_early
from shared.settings.services import (
    AwsSettings,
    InterruptionSettings,
    LauncherSettings,
    SchedulerSettings,
    ServiceSettings,
    TerminatorSettings,
    WatcherSettings,
)

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
