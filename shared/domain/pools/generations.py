"""The two API generations that store our objects, and the rules in which they differ.

An object names its generation in the stored text ``generation_api``; its property ``api`` is the record of that
generation. Code asks the record for one rule and never compares the text, so a difference has one name and one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.domain import labels as keys

V1ALPHA5 = "v1alpha5"
V1 = "v1"
CLASS_GROUP = "karpenter.k8s.aws"
"""API group of the node classes of both."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Generation:
    """One API generation. A rule that it does not state does not hold for its objects.

    The records are compared by identity: there is one for each generation.
    """

    name: str
    """What ``generation_api`` holds."""
    api_version: str
    """``apiVersion`` of pools and machines."""
    pool_kind: str
    class_kind: str
    machine_kind: Literal["Machine", "NodeClaim"]
    pool_label: str
    """The label of a node that names its pool."""
    selector_suffix: str = ""
    """What the names of a node class's selector fields end in."""
    machines_path: str = "spec"
    """Where a pool says what its machines are: requirements and taints are below it."""
    labels_path: str = "spec.labels"
    """Where a pool has the labels of its machines."""
    limits_path: str = "spec.limits.resources"

    closes_by_taint: bool = False
    """A node that pods must not come to is tainted; otherwise it is cordoned (TRM-03)."""
    drains_daemons_last: bool = False
    """A drain has four tiers, daemons behind the others; otherwise two, which only priority tells apart (TRM-07)."""
    waits_until_consolidatable: bool = False
    """A machine is empty or underutilized only with the condition Consolidatable, which consolidateAfter delays
    (DIS-20); otherwise a TTL that begins when the last pod leaves decides about empty machines alone."""
    replaces_spot_by_spot: bool = False
    """Consolidation may replace a spot machine by another one, if the gate allows it (CON-08, CON-14)."""
    replaces_expired: bool = False
    """An expired machine is replaced first, within budgets (DIS-61); otherwise it is deleted at once (DIS-60)."""
    drift_needs_gate: bool = False
    """Drift is off without the feature gate (OPS-05)."""
    one_command_at_a_time: bool = False
    """A disruption begins when the one before it has ended (DIS-05)."""
    class_follows_pool: bool = False
    """A machine belongs to the class that its pool names today, not to the one it was made with."""
    exclusive_bounds: bool = False
    """Numeric bounds of requirements are written as Gt and Lt."""
    labels_node_class: bool = False
    """Machines and their nodes have a label that names the node class."""
    class_has_kubelet: bool = False
    """The kubelet's settings belong to the node class, otherwise to the pool and the machine (P-20, EC-10)."""
    class_makes_profile: bool = False
    """The instance profile is made for the class's role, otherwise it is named by the user (EC-21)."""
    class_is_authorized: bool = False
    """Dry runs find out whether EC2 would permit a class's launches."""
    class_reserves_capacity: bool = False
    """A launch template may name a capacity reservation."""
    own_tags: bool = False
    """Instances and launch templates have v1's tags, a template a name by content, and a registered machine's
    instance is tagged with the machine's name (LCH-23, LCH-56)."""
    keeps_node_taints: bool = False
    """The kubelet registers with the machine's taints, so nothing adds them later (LCH-39)."""
    notes_launch: bool = False
    """A launched machine keeps the labels of its place, its instance profile and the cluster's authority."""
    detailed_status: bool = False
    """Statuses have a condition for each step or part, and what v1 adds to them: a machine's image and last pod event,
    a pool's registrations and nodes, what disrupts a machine. Otherwise they say only whether an object is ready."""
    older_names: bool = False
    """Metrics also count under the names, and logs use the lines, of Karpenter before NodePools (MET-12, LCH-72)."""

    @property
    def pool_noun(self) -> str:
        """What messages and logs call a pool."""
        return self.pool_kind.lower()

    @property
    def machine_noun(self) -> str:
        """What messages and logs call a machine."""
        return self.machine_kind.lower()

    def worded(self, text: str) -> str:
        """A log line that says nodeclaim, in this generation's words (LCH-72)."""
        return text.replace("nodeclaim", self.machine_noun)

    def selector_field(self, name: str) -> str:
        """The path of a node class's selector: of ``amiSelector`` it is ``spec.amiSelectorTerms`` in v1."""
        return f"spec.{name}{self.selector_suffix}"


GENERATIONS = {
    V1ALPHA5: Generation(
        name=V1ALPHA5,
        api_version="karpenter.sh/v1alpha5",
        pool_kind="Provisioner",
        class_kind="AWSNodeTemplate",
        machine_kind="Machine",
        pool_label=keys.PROVISIONER_NAME,
        replaces_expired=True,
        drift_needs_gate=True,
        one_command_at_a_time=True,
        class_follows_pool=True,
        exclusive_bounds=True,
        older_names=True,
    ),
    V1: Generation(
        name=V1,
        api_version="karpenter.sh/v1",
        pool_kind="NodePool",
        class_kind="EC2NodeClass",
        machine_kind="NodeClaim",
        pool_label=keys.NODE_POOL,
        selector_suffix="Terms",
        machines_path="spec.template.spec",
        labels_path="spec.template.metadata.labels",
        limits_path="spec.limits",
        closes_by_taint=True,
        drains_daemons_last=True,
        waits_until_consolidatable=True,
        replaces_spot_by_spot=True,
        labels_node_class=True,
        class_has_kubelet=True,
        class_makes_profile=True,
        class_is_authorized=True,
        class_reserves_capacity=True,
        own_tags=True,
        keeps_node_taints=True,
        notes_launch=True,
        detailed_status=True,
    ),
}
"""By the stored text."""
OF_KIND = {
    kind: one
    for one in GENERATIONS.values()
    for kind in (one.pool_kind, one.class_kind, one.machine_kind)
}
"""By the kind of any of their objects."""
