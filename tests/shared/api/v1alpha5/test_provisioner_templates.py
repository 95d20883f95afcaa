"""Settings of AWS that stand in the Provisioner itself are a template of its own (P-20..P-24)."""

from __future__ import annotations

import pytest

from shared.api.v1alpha5.provisioners import (
    inline_template,
    inline_template_name,
    parse_provisioner,
)
from shared.domain import labels as keys
from tests.shared.api.conftest import META, document
from tests.shared.api.documents.provisioners import (
    INLINE,
    texts,
)


def test_the_fields_of_settings_in_line_are_judged_in_place() -> None:
    """T-13: what is wrong in spec.provider is told there."""
    faults = texts(document({"provider": {**INLINE, "amiFamily": "Custom", "subnetSelector": {}}}))
    assert [fault.partition(": ")[0] for fault in faults] == [
        "spec.provider.amiSelector",
        "spec.provider.subnetSelector",
    ]


def test_settings_in_line_stand_for_a_template_of_their_own() -> None:
    """T-13, the first Provisioner of seed 001: old files carry apiVersion and kind, too."""
    old = {"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS", **INLINE}
    raw = document({"provider": old, "ttlSecondsAfterEmpty": 30})
    assert parse_provisioner(raw).require("pool").node_class == "one-inline"
    assert inline_template(raw) == {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {
            "name": "one-inline",
            "annotations": {keys.INLINE_ANNOTATION: "one"},
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1alpha5",
                    "kind": "Provisioner",
                    "name": "one",
                    "uid": META["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": INLINE,
    }


@pytest.mark.parametrize(
    "spec", [None, {}, {"provider": "x"}, {"provider": INLINE, "providerRef": {"name": "a"}}]
)
def test_without_settings_in_line_there_is_no_such_template(spec: object) -> None:
    assert inline_template(document(spec)) is None


def test_a_template_from_a_file_has_no_owner() -> None:
    """A file gives no uid, and an API server refuses an owner without one."""
    template = inline_template({"metadata": {"name": "one"}, "spec": {"provider": INLINE}})
    assert template is not None
    assert "ownerReferences" not in template["metadata"]


def test_names_of_templates_stay_valid_and_apart() -> None:
    long = "a" * 250
    names = {inline_template_name(long + end) for end in ("aaa", "aab", "")}
    assert len(names) == 3
    assert all(len(name) <= 253 and name.endswith("-inline") for name in names)
    assert "-." not in inline_template_name("a" * 236 + "." * 17)
