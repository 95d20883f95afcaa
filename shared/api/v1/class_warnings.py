"""Settings of a node class, of either generation, that are accepted and with which no node would join."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from shared.api.faults import Fault

Json = Mapping[str, Any]
FAMILY = "bottlerocket"


def warnings_of(raw: Json) -> list[Fault]:
    """Warnings about the node class as it was written. Never raises."""
    spec = raw.get("spec")
    return list(_warnings(spec)) if isinstance(spec, Mapping) else []


def _warnings(spec: Json) -> Iterator[Fault]:
    role, user_data = spec.get("role"), spec.get("userData")
    if isinstance(role, str) and role.startswith("arn:"):
        name = role.rpartition("/")[2]
        yield Fault(("spec", "role"), f"is an ARN, but must be the name of the role; write {name}")
    if isinstance(user_data, str) and _is_bottlerocket(spec) and (fault := _toml_fault(user_data)):
        text = f"is not TOML, which Bottlerocket needs: {fault}"
        yield Fault(("spec", "userData"), text)


def _is_bottlerocket(spec: Json) -> bool:
    """By its family, or where it has none by its alias."""
    if spec.get("amiFamily") is not None:
        return str(spec["amiFamily"]).lower() == FAMILY
    terms = spec.get("amiSelectorTerms")
    listed = terms if isinstance(terms, list) else []
    aliases = [one.get("alias") for one in listed if isinstance(one, Mapping)]
    return any(str(alias).partition("@")[0] == FAMILY for alias in aliases)


def _toml_fault(text: str) -> str:
    try:
        tomllib.loads(text)
    except RecursionError:
        return "nests its tables too deeply"
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        return str(error)
    return ""
