"""Settings of the console, as pydantic models: name, type, default, meaning."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from shared.settings.records import RecordStoreSettings
from shared.settings.services.base import ServiceSettings
from shared.settings.types import Duration


class ConsoleSettings(RecordStoreSettings, ServiceSettings):
    """Settings of the console."""

    console_access: Literal["open", "authenticated", "unprotected"] = Field(
        "authenticated",
        description="Access to the page: open to every client of a loopback STATUS_HOST, or limited to clients "
        "whose token the API server authorizes. unprotected: open on any address, for a container whose port is "
        "published on 127.0.0.1 only.",
    )
    watcher_url: str = Field(
        "http://dovetail-watcher:8080", description="Status port of the watcher."
    )
    scheduler_url: str = Field(
        "http://dovetail-scheduler:8080", description="Status port of the scheduler."
    )
    launcher_url: str = Field(
        "http://dovetail-launcher:8080", description="Status port of the launcher."
    )
    terminator_url: str = Field(
        "http://dovetail-terminator:8080", description="Status port of the terminator."
    )
    interruption_url: str = Field(
        "http://dovetail-interruption:8080", description="Status port of the interruption service."
    )
    scheduler_token: SecretStr = Field(
        SecretStr(""),
        description="Kubernetes token for the scheduler's questions (QUESTIONS=authenticated); empty: the token of the "
        "console's ServiceAccount.",
    )
    mirror_max_age: Duration = Field(
        60.0,
        description="Age of the mirror after which the page says that its picture is old.",
    )
