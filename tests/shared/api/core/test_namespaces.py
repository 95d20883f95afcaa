"""Namespaces as affinity terms look at them (SCH-83)."""

from __future__ import annotations

import pytest

from shared.api.core.namespaces import parse_namespace
from shared.domain.workloads.namespaces import Namespace
from shared.errors import InvalidObject


def test_a_namespace_is_its_labels() -> None:
    raw = {"metadata": {"uid": "u", "name": "red", "labels": {"team": "red"}}}
    assert parse_namespace(raw) == Namespace("u", "red", {"team": "red"})
    assert parse_namespace({"metadata": {"uid": "u", "name": "red"}}).labels == {}


def test_labels_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.labels"):
        parse_namespace({"metadata": {"uid": "u", "name": "red", "labels": ["team"]}})
