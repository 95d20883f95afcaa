"""Real kubectl works on every kind of ours: apply, get, describe, edit, explain, patch, scale, delete, and refusals.

One server for all tests: every test has objects of its own.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from tests.support.cluster.kubectl import PROGRAMS, Kubectl, served
from tests.support.cluster.our_kinds import (
    CLAIM,
    CLASS,
    CRDS,
    KINDS,
    POOL,
    PROVISIONER,
    TEMPLATE,
    Document,
    Kind,
    OurKinds,
    listed,
    our_kinds,
)
from tests.support.cluster.refused_kinds import REFUSED_ON_APPLY, SEAT

pytestmark = pytest.mark.asyncio(loop_scope="module")

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
changeable = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind is not CLAIM], ids=lambda kind: kind.kind
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROGRAMS)
async def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[OurKinds]:
    async with our_kinds(tmp_path_factory.mktemp("kubectl"), request.param) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("which", PROGRAMS)
async def test_the_definitions_can_be_applied_server_side(tmp_path: Path, which: str) -> None:
    """And again, which changes nothing; every kind is then served."""
    store = Store(SystemClock(), random.Random(7))
    async with served(store) as url:
        kubectl = Kubectl.for_server(url, tmp_path, which)
        code, text = await kubectl("apply", "--server-side", "-f", str(CRDS))
        assert (code, text.count("serverside-applied")) == (0, len([*CRDS.iterdir()])), text
        revision = store.revision
        assert (await kubectl("apply", "--server-side", "-f", str(CRDS)))[0] == 0
        assert store.revision == revision
        assert {kind.kind for kind in KINDS} <= {resource.kind for resource in store.served()}


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client", "server"])
async def test_apply_creates_every_kind_and_then_changes_nothing(
    cluster: OurKinds, options: tuple[Any, ...] | tuple[str, ...]
) -> None:
    name = f"applied-{len(options)}"
    documents = [kind.object(name) for kind in KINDS]
    code, text = await cluster.apply(documents, *options)
    assert (code, len(text.splitlines())) == (0, len(KINDS)), text
    revision = cluster.store.revision
    assert (await cluster.apply(documents, *options))[0] == 0
    assert cluster.store.revision == revision
    generations = {cluster.stored(kind, name)["metadata"]["generation"] for kind in KINDS}
    assert generations == {1}


@pytest.mark.slow
@every_kind
async def test_get_shows_the_columns_of_the_kind(cluster: OurKinds, kind: Kind) -> None:
    """P-14: columns of a Provisioner (M-04, NP-14, NC-04)."""
    cluster.create(kind, "shown")
    cluster.set_status(kind, "shown")
    _, table = await cluster.kubectl("get", kind.plural, "shown")
    assert table.splitlines()[0].split() == ["NAME", *kind.columns.split()]
    _, table = await cluster.kubectl("get", kind.kind.lower(), "shown", "-o", "wide")
    heading, row = (line.split() for line in table.splitlines())
    assert heading == ["NAME", *kind.wide.split()]
    cells = dict(zip(heading, row, strict=False))
    assert cells.pop("AGE", "0s").endswith("s")
    assert list(cells.values()) == ["shown", *kind.shown.split()]


async def test_describe_shows_spec_and_status_of_every_kind(cluster: OurKinds) -> None:
    for kind in KINDS:
        cluster.create(kind, "described")
        cluster.set_status(kind, "described")
    documents = [kind.object("described") for kind in KINDS]
    code, text = await cluster.kubectl("describe", "-f", "-", stdin=json.dumps(listed(documents)))
    assert code == 0
    for kind in KINDS:
        assert f"Kind:         {kind.kind}\n" in text
    assert text.count("\nSpec:\n") == text.count("\nStatus:\n") == len(KINDS)


@pytest.mark.slow
@changeable
async def test_edit_changes_the_object(cluster: OurKinds, kind: Kind) -> None:
    cluster.create(kind, "edited")
    before, after = kind.edit
    editor = f"sed -i 's/{before}/{after}/'"
    code, text = await cluster.kubectl("edit", kind.plural, "edited", editor=editor)
    assert (code, "edited" in text) == (0, True), text
    stored = cluster.stored(kind, "edited")
    assert after in yaml.safe_dump(stored["spec"])
    assert stored["metadata"]["generation"] == 2


@pytest.mark.slow
@every_kind
async def test_explain_describes_every_field(cluster: OurKinds, kind: Kind) -> None:
    cluster.kubectl.needs_today("it asks for OpenAPI v2, which the embedded server does not fill")
    path, words = kind.explained
    code, text = await cluster.kubectl("explain", f"{kind.kind.lower()}.spec.{path}")
    assert (code, words in " ".join(text.split())) == (0, True), text


async def test_patch_labels_every_kind_and_delete_takes_the_objects_away(cluster: OurKinds) -> None:
    for kind in KINDS:
        cluster.create(kind, "patched")
    manifest = json.dumps(listed([kind.object("patched") for kind in KINDS]))
    patch = ("--type=merge", "-p", '{"metadata": {"labels": {"team": "a"}}}')
    code, text = await cluster.kubectl("patch", "-f", "-", *patch, stdin=manifest)
    assert (code, text.count(" patched\n")) == (0, len(KINDS)), text
    stored = [cluster.stored(kind, "patched")["metadata"] for kind in KINDS]
    assert {(m["labels"]["team"], m["generation"]) for m in stored} == {("a", 1)}
    code, text = await cluster.kubectl("delete", "-f", "-", stdin=manifest)
    assert (code, text.count(" deleted")) == (0, len(KINDS)), text
    assert not any(cluster.find(kind, "patched") for kind in KINDS)


async def test_the_kinds_have_their_short_names_and_category(cluster: OurKinds) -> None:
    """API-02: kinds of v1."""
    cluster.create(CLASS, "short")
    cluster.create(POOL, "in-category")
    assert "short" in (await cluster.kubectl("get", "ec2nc"))[1]
    _, names = await cluster.kubectl("get", "karpenter", "-o", "name")
    assert "nodepool.karpenter.sh/in-category" in names.split()
    assert "ec2nodeclass.karpenter.k8s.aws/short" in names.split()


async def test_a_static_pool_is_scaled(cluster: OurKinds) -> None:
    """NP-13: the scale subresource joins spec.replicas and status.nodes."""
    cluster.create(POOL, "static", {"replicas": 1, "weight": None})
    cluster.set_status(POOL, "static")
    code, text = await cluster.kubectl("scale", "nodepool/static", "--replicas=3")
    assert (code, "scaled" in text) == (0, True), text
    assert cluster.stored(POOL, "static")["spec"]["replicas"] == 3
    path = "/apis/karpenter.sh/v1/nodepools/static/scale"
    scale = json.loads((await cluster.kubectl("get", "--raw", path))[1])
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 2)


async def test_a_dynamic_pool_is_not_scaled(cluster: OurKinds) -> None:
    cluster.create(POOL, "dynamic")
    code, text = await cluster.kubectl("scale", "nodepool/dynamic", "--replicas=3")
    assert code != 0
    assert 'the spec replicas field ".spec.replicas" does not exist' in text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusals(cluster: OurKinds) -> list[str]:
    """The lines kubectl prints when all of these are applied at once; each object is named by its place."""
    documents = [
        kind.object(f"refused-{place}", spec)
        for place, (kind, spec, _) in enumerate(REFUSED_ON_APPLY)
    ]
    code, text = await cluster.apply(documents)
    assert code != 0
    return text.splitlines()


@pytest.mark.parametrize("place", range(len(REFUSED_ON_APPLY)))
async def test_apply_is_refused_with_the_field_and_the_rule(
    cluster: OurKinds, refusals: list[str], place: int
) -> None:
    kind, _, words = REFUSED_ON_APPLY[place]
    named = f'{kind.kind}.{kind.api_version.partition("/")[0]} "refused-{place}" is invalid: '
    (reason,) = (line.partition(named)[2] for line in refusals if named in line)
    assert words in reason
    assert cluster.find(kind, f"refused-{place}") is None


REFUSED_CHANGES = [
    (CLAIM, {"expireAfter": "1h"}, "spec is immutable"),
    (CLAIM, {"nodeClassRef": {"kind": "Other"}}, "kind is immutable"),
    (POOL, {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}, "kind is immutable"),
    (POOL, {"template": {"spec": {"nodeClassRef": {"group": "x.io"}}}}, "group is immutable"),
    (POOL, {"replicas": 2, "weight": None}, "replicas cannot be added"),
    (CLASS, {"instanceProfile": "p"}, "exactly one of role and instanceProfile"),
]


@pytest.mark.parametrize(
    ("kind", "spec", "words"), REFUSED_CHANGES, ids=lambda v: getattr(v, "kind", None)
)
async def test_a_change_is_refused_and_the_object_stays(
    cluster: OurKinds, kind: Kind, spec: Document, words: str
) -> None:
    name = f"kept-{REFUSED_CHANGES.index((kind, spec, words))}"
    cluster.create(kind, name)
    patch = json.dumps({"spec": spec})
    code, text = await cluster.kubectl("patch", kind.plural, name, "--type=merge", "-p", patch)
    assert code != 0
    assert words in text
    assert cluster.stored(kind, name)["metadata"]["generation"] == 1


async def test_keys_of_reserved_domains_that_are_free_are_taken(cluster: OurKinds) -> None:
    """P-17: well-known labels, their old names, and the domains that are excepted."""
    labels = ("kops.k8s.io/a", "node.kubernetes.io/a", "x.node-restriction.kubernetes.io/a")
    keys = (
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "karpenter.k8s.aws/instance-family",
        "karpenter.sh/capacity-type",
    )
    requirements = [{"key": key, "operator": "Exists"} for key in keys]
    taints = [SEAT, SEAT | {"effect": "NoExecute"}]
    spec = {"labels": dict.fromkeys(labels, "a"), "requirements": requirements, "taints": taints}
    code, text = await cluster.apply([PROVISIONER.object("free-keys", spec)])
    assert code == 0, text


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (POOL, {"template": {"spec": {"nodeClassRef": {"name": "green"}}}}),
        (CLASS, {"role": None, "instanceProfile": "p"}),
        (PROVISIONER, {"providerRef": None, "provider": TEMPLATE.spec}),
    ],
    ids=["another class", "profile instead of role", "in-line template"],
)
async def test_a_change_that_keeps_the_rules_is_taken(
    cluster: OurKinds, kind: Kind, spec: Document
) -> None:
    """NP-04: reference to the node class; EC-07: role or instance profile; P-07: provider or providerRef."""
    name = f"changed-{kind.plural}"
    cluster.create(kind, name)
    patch = json.dumps({"spec": spec})
    code, text = await cluster.kubectl("patch", kind.plural, name, "--type=merge", "-p", patch)
    assert code == 0, text


async def test_a_claim_takes_status_and_finalizers_although_its_spec_is_fixed(
    cluster: OurKinds,
) -> None:
    """NC-01: the spec of a NodeClaim is immutable; NC-05: owner and finalizer of a NodeClaim."""
    cluster.kubectl.needs_today("its patch has no --subresource")
    cluster.create(CLAIM, "fixed")
    status = ("--subresource=status", "--type=merge", "-p", '{"status": {"nodeName": "n1"}}')
    assert (await cluster.kubectl("patch", "nodeclaim", "fixed", *status))[0] == 0
    finalizer = '{"metadata": {"finalizers": ["karpenter.sh/termination"]}}'
    patched = await cluster.kubectl("patch", "nodeclaim", "fixed", "--type=merge", "-p", finalizer)
    assert patched[0] == 0


async def test_an_unknown_field_is_refused_by_name(cluster: OurKinds) -> None:
    cluster.kubectl.needs_today("it checks fields itself, by OpenAPI v2")
    code, text = await cluster.apply([POOL.object("typo", {"wieght": 1})])
    assert code != 0
    assert 'unknown field "spec.wieght"' in text


async def test_an_edit_that_breaks_a_rule_shows_the_reason(cluster: OurKinds) -> None:
    """kubectl opens the editor again with the reason; an editor that changes nothing ends it."""
    cluster.create(POOL, "misedited")
    editor = "sed -i 's/weight: 7$/weight: 700/'"
    code, text = await cluster.kubectl("edit", "nodepool", "misedited", editor=editor)
    assert code != 0
    assert "is invalid" in text
    assert cluster.stored(POOL, "misedited")["spec"]["weight"] == 7
