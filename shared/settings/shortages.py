"""Settings of the shortage history, for the services that write and read it."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.settings.types import STORE_PATTERN, Duration


class ShortageSettings(BaseSettings):
    """How long a shortage is remembered, and how much it counts."""

    shortage_half_life: Duration = Field(
        86_400.0,
        description="After how long a refusal or interruption of an offering counts half; 0: they are not remembered.",
    )
    shortage_store: str = Field(
        "",
        pattern=STORE_PATTERN,
        description="Where clusters share what they found, and keep it: a directory, or s3://BUCKET/PREFIX; empty: it "
        "is kept in RECORD_STORE, and not shared.",
    )
    shortage_margin: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of its price by which an offering counts as dearer that never has capacity.",
    )
