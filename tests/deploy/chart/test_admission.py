"""deploy/kubernetes/admission on the embedded API server: what the policies refuse, and what they leave alone."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import cel
import pytest
import yaml

from deploy.rendering.admission import policies
from local.cluster.api.errors import ApiError
from local.cluster.builtin.resources import ADMISSION_GROUP
from local.cluster.storage.store import Store
from local.stack_plan import PROJECT
from shared.api.core.metadata import POOL_CHOICES, Choice
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.devices.cel_functions import FUNCTIONS
from tests.support.cluster.admission_cases import ANNOTATIONS, CASES, Case
from tests.support.cluster.our_kinds import CRDS

Document = dict[str, Any]
FOLDER = PROJECT / "deploy" / "kubernetes" / "admission"
TEXTS = (
    *("", "x", "on", "off", "-1", "0", "7", "7%", "101%", "1234567", "0.02", "1000", "24h", "721h"),
    *("1h30m", "1h30", ".5h", "required", " required ", "Drifted", "Drifted, Empty", "Drifted,,"),
    *("Global", "Karpenter", "global", "LowestCost", "keep", "drain", "Drain", "warn", "nodes: 3"),
    *("nodes: -3", "percent: 20%", "20%", "[]", "{schedule: '@daily', duration: 1h}", "cpu: 4"),
    '[{"nodes": 3}, {"nodes": 5, "schedule": "0 8 * * *", "duration": "10h"}]',
)


@cache
def manifests() -> tuple[Document, ...]:
    """The definitions of our kinds, then the policies and their bindings."""
    files = [*sorted(CRDS.glob("karpenter*.yaml")), FOLDER / "policies.yaml"]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(one for file in files for one in yaml.load_all(file.read_text(), loader))


def write(store: Store, document: Document) -> None:
    """Create the object, or replace the one that has its name."""
    group = document["apiVersion"].rpartition("/")[0]
    kinds = {(one.group, one.kind): one.plural for one in store.served()}
    plural, name = kinds[group, document["kind"]], document["metadata"]["name"]
    old = store.find(plural, name, group=group)
    if old is None:
        store.create(plural, copy.deepcopy(document), group=group)
        return
    metadata = {**old["metadata"], **document["metadata"]}
    store.update(plural, {**copy.deepcopy(document), "metadata": metadata}, group=group)


@pytest.fixture
def store() -> Store:
    store = Store(SystemClock(), random.Random(7))
    for manifest in manifests():
        write(store, manifest)
    return store


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_write_is_accepted_or_refused_with_the_reason(store: Store, case: Case) -> None:
    for existing in case.before:
        write(store, existing)
    if not case.refusal:
        write(store, case.write)
        return
    with pytest.raises(ApiError) as refused:
        write(store, case.write)
    assert case.refusal in refused.value.message
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


def test_an_older_object_with_a_fault_can_be_written_on(store: Store) -> None:
    """Else the services could not annotate a pool that is older than the policies."""
    bad = next(case.write for case in ANNOTATIONS if case.what == "a misspelled name")
    bindings = store.list("validatingadmissionpolicybindings", group=ADMISSION_GROUP)
    for binding in bindings:
        store.delete(
            "validatingadmissionpolicybindings", binding["metadata"]["name"], group=ADMISSION_GROUP
        )
    write(store, bad)
    for binding in bindings:
        write(store, {**binding, "metadata": {"name": binding["metadata"]["name"]}})
    annotations = {**bad["metadata"]["annotations"], keys.POOL_HASH: "123"}
    write(store, {**bad, "metadata": {**bad["metadata"], "annotations": annotations}})
    found = store.find("nodepools", "blue", group="karpenter.sh")
    assert found is not None
    assert found["metadata"]["annotations"][keys.POOL_HASH] == "123"


def test_a_policy_that_does_not_compile_is_refused(store: Store) -> None:
    policy = yaml.safe_load((FOLDER / "policies.yaml").read_text().split("\n---\n")[0])
    policy["metadata"]["name"], policy["spec"]["validations"][0]["expression"] = "bad", "object.("
    with pytest.raises(ApiError, match="compilation failed"):
        write(store, policy)


@pytest.mark.parametrize("choice", POOL_CHOICES, ids=lambda choice: choice.annotation)
def test_the_expression_of_an_annotation_refuses_nothing_that_we_read(choice: Choice) -> None:
    """And where the annotation is no YAML, accepts nothing else."""
    program = cel.compile(choice.cel)
    called = {name: do for name, do in FUNCTIONS.items() if name in program.functions()}
    for text in TEXTS:
        accepted = program.execute(cel.Context({"v": text}, called))
        read = choice.value(text) is not None
        assert accepted or not read, text
        if not choice.faults(text) and text:
            assert accepted == read, text


def test_every_policy_has_its_binding() -> None:
    documents = list(yaml.safe_load_all((FOLDER / "policies.yaml").read_text()))
    names = {kind: {one["metadata"]["name"] for one in documents if one["kind"].endswith(kind)}
             for kind in ("Policy", "PolicyBinding")}  # fmt: skip
    assert names["Policy"] == names["PolicyBinding"]
    assert names["Policy"] == {f"dovetail-{one['name']}" for one in policies()}
