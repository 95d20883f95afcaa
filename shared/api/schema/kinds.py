"""The parts of a CustomResourceDefinition outside its schema, and the base class of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from shared.api.crd.model import ApiModel


@dataclass(frozen=True)
class Column:
    """One printer column of ``kubectl get``; ``wide`` shows it with ``-o wide`` only."""

    name: str
    path: str
    """JSONPath such as ``.spec.weight``."""
    type: str = "string"
    wide: bool = False
    description: str = ""


@dataclass(frozen=True)
class KindInfo:
    """Names, columns and subresources of a kind. Karpenter's and ours are cluster-scoped (API-01, API-02)."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("karpenter",)
    columns: tuple[Column, ...] = ()
    scale: tuple[str, str] | None = None
    """(specReplicasPath, statusReplicasPath) of the scale subresource."""
    namespaced: bool = False
    also_served: tuple[str, ...] = ()
    """Other versions with the same schema, which clients may use; stored is ``version``."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


class Resource(ApiModel):
    """An object of one of our kinds. Subclasses set ``INFO`` and add ``spec`` and ``status``."""

    INFO: ClassVar[KindInfo]

    api_version: str | None = None
    """Group and version of this object's schema."""
    kind: str | None = None
    """Name of this object's kind."""
    metadata: dict[str, Any] = Field(default={})
    """Name, labels, annotations and the like."""


class StatusCondition(ApiModel):
    """One observation about the object."""

    type: str
    """What is observed, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    reason: str = ""
    """Reason of the status in one CamelCase word, for programs."""
    message: str = ""
    """Explanation of the status in a sentence, for people."""
    last_transition_time: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}
    )
    """When the status last changed."""
    severity: str | None = None
    """How serious a False status is; used by v1alpha5 only."""
    observed_generation: int | None = None
    """Generation of the object that was observed."""
