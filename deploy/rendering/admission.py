"""Admission policies for what the CRDs cannot say: annotations, labels, and two objects that do not fit. Pure.

Rules of a CRD see the fields of one object without its annotations and labels. A ValidatingAdmissionPolicy sees the
whole object, the one before, and one object of another kind at a time (its parameter). A rule about a value that a
write does not change holds: services and users can go on writing objects that are older than the policies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shared.api.core.label_syntax import cel_is_qualified_name
from shared.api.core.metadata import POOL_CHOICES, Choice
from shared.api.label_rules import cel_allowed_v1, cel_allowed_v1alpha5
from shared.api.schema.kinds import Resource
from shared.api.schema.v1.ec2_node_class import EC2NodeClass
from shared.api.schema.v1.node_claim import NodeClaim
from shared.api.schema.v1.node_pool import NodePool
from shared.api.schema.v1alpha5.machine import Machine
from shared.api.schema.v1alpha5.provisioner import Provisioner
from shared.api.v1.auto_mode import AUTO_MODE_GROUP
from shared.domain import labels as keys
from shared.domain.pools.usage import NODES
from shared.domain.resources import CPU, MEMORY

Document = dict[str, Any]
Kind = type[Resource]
PREFIX = "dovetail.sh/"
WRITTEN_BY_SERVICES = (keys.HASHED_BY, keys.INLINE_ANNOTATION, keys.MIGRATION_ANNOTATION)
"""Annotations under our prefix that pools have and nobody sets by hand."""
_AMOUNT = r"[0-9][0-9.]*[A-Za-z]*"
_ABSENT = "!has(object.metadata.annotations)"
_CLASS_REFS: dict[Kind, str] = {
    NodePool: "spec.template.spec.nodeClassRef",
    NodeClaim: "spec.nodeClassRef",
}
_CHANGED_SPEC = (("changed", "oldObject == null || object.spec != oldObject.spec"),)


class Policy(NamedTuple):
    """One policy: which kinds, what holds, and of which kind its parameters are."""

    name: str
    kinds: tuple[Kind, ...]
    validations: tuple[Document, ...]
    variables: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    """(name, expression) of ``matchConditions``: the policy is about writes for which all hold."""
    parameter: Kind | None = None
    operations: tuple[str, ...] = ("CREATE", "UPDATE")


def policies() -> list[Document]:
    """``{name, spec, parameters}`` of each policy; with ``parameters`` its binding hands over all objects of a kind."""
    return [
        {"name": one.name, "parameters": one.parameter is not None, "spec": _spec(one)}
        for one in (
            _annotations(),
            _settings_fit(NodePool, "object.spec.limits"),
            _settings_fit(Provisioner, "object.spec.limits.resources"),
            _keys(NodePool, "object.spec.template.metadata", cel_allowed_v1("k")),
            _keys(Provisioner, "object.spec", cel_allowed_v1alpha5("k")),
            _class_kind("pool-class-kind", NodePool),
            _class_kind("nodeclaim-class-kind", NodeClaim),
            _fit("class-of-pool", NodePool, EC2NodeClass, pool="object", node_class="params"),
            _fit("pools-of-class", EC2NodeClass, NodePool, pool="params", node_class="object"),
            _names(NodePool, Provisioner),
            _names(Provisioner, NodePool),
            _owner(NodeClaim, keys.NODE_POOL),
            _owner(Machine, keys.PROVISIONER_NAME),
        )
    ]


def _spec(policy: Policy) -> Document:
    infos = [kind.INFO for kind in policy.kinds]
    spec: Document = {
        # Without the definition of its parameters' kind a policy fails: that must not block pools.
        "failurePolicy": "Ignore" if policy.parameter else "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [info.group],
                    "apiVersions": [info.version],
                    "operations": list(policy.operations),
                    "resources": [info.plural],
                }
                for info in infos
            ]
        },
        "validations": list(policy.validations),
    }
    if policy.parameter:
        info = policy.parameter.INFO
        spec["paramKind"] = {"apiVersion": info.api_version, "kind": info.kind}
    for field, pairs in (("variables", policy.variables), ("matchConditions", policy.conditions)):
        if pairs:
            spec[field] = [{"name": name, "expression": text} for name, text in pairs]
    return spec


def _rule(expression: str, message: str, words: str = "") -> Document:
    """``words``: an expression that gives the message with the value in it."""
    explained = {"messageExpression": words} if words else {}
    return {"expression": expression, "message": message, **explained}


def _annotations() -> Policy:
    """Names and values of annotations under ``dovetail.sh``."""
    known = [*(choice.annotation for choice in POOL_CHOICES), *WRITTEN_BY_SERVICES]
    return Policy(
        "pool-annotations",
        (NodePool, Provisioner),
        (
            _rule(
                "variables.unknown.size() == 0",
                "unknown annotation under dovetail.sh",
                "'pools have no such annotation: ' + variables.unknown.join(', ') + "
                "'; correct its name or remove it'",
            ),
            *(_value(choice) for choice in POOL_CHOICES),
        ),
        variables=(
            ("annotations", f"{_ABSENT} ? {{}} : object.metadata.annotations"),
            (
                "before",
                "oldObject == null || !has(oldObject.metadata.annotations) ? {} "
                ": oldObject.metadata.annotations",
            ),
            (
                "changed",
                f"variables.annotations.filter(k, k.startsWith('{PREFIX}') && !(k in variables.before "
                "&& variables.before[k] == variables.annotations[k]))",
            ),
            ("unknown", f"variables.changed.filter(k, !(k in {known}))"),
        ),
    )


def _value(choice: Choice) -> Document:
    """An empty annotation counts as absent, as in ``shared.api.core.metadata``."""
    key = choice.annotation
    return _rule(
        f"!('{key}' in variables.changed) || [variables.annotations['{key}']]"
        f".all(v, v == '' || ({choice.cel}))",
        f"{key} must be {choice.allowed}",
    )


def _keys(kind: Kind, holder: str, allowed: str) -> Policy:
    """Keys of labels and annotations of the machines: the schema has no bound for their length, so no rule may search
    them."""
    annotated = cel_is_qualified_name("k.lowerAscii()")
    rules = (
        _rule(
            f"variables.{name}.all(k, k in variables.{name}Before || {condition})",
            f"{name} of the machines must have {words}",
            f"'{name} of the machines must have {words}: ' + variables.{name}.filter(k, "
            f"!(k in variables.{name}Before || {condition})).join(', ')",
        )
        for name, condition, words in (
            (
                "labels",
                allowed,
                "qualified names such as example.com/team, in domains that nobody reserves",
            ),
            ("annotations", annotated, "qualified names such as example.com/team"),
        )
    )
    old = holder.replace("object", "oldObject", 1)
    return Policy(
        f"{kind.INFO.kind.lower()}-keys",
        (kind,),
        tuple(rules),
        variables=tuple(
            (f"{name}{suffix}", f"{present} ? {at}.{name} : {{}}")
            for name in ("labels", "annotations")
            for suffix, at, first in (("", holder, ""), ("Before", old, "oldObject != null && "))
            for present in (first + _present(f"{at}.{name}"),)
        ),
        conditions=(*_CHANGED_SPEC, *_ours_alone(kind)),
    )


def _present(path: str) -> str:
    return " && ".join(f"has({one})" for one in _prefixes(path))


def _settings_fit(kind: Kind, limits: str) -> Policy:
    """Capacity that is kept beside the limits and the size of the pool."""
    read = (keys.MINIMUM_ANNOTATION, keys.HEADROOM_ANNOTATION, keys.HOURS_ANNOTATION,
            keys.OUTSIDE_HOURS_ANNOTATION)  # fmt: skip
    # Provisioner: spec.limits and spec.limits.resources may both be absent.
    present = _present(limits)
    rules = [
        _rule(
            f"!('{name}' in variables.limits) || variables.{which}.findAll('{_assigned(name)}')"
            f".all(m, [m.find('{_AMOUNT}$')].all(q, !isQuantity(q) || "
            f"!quantity(q).isGreaterThan(quantity(string(variables.limits['{name}'])))))",
            f"{PREFIX}{which} keeps more {name} than the pool's limit allows; raise the limit or lower it",
        )
        for which, names in (("minimum", (NODES, CPU, MEMORY)), ("headroom", (CPU, MEMORY)))
        for name in names
    ]
    if kind is NodePool:
        rules.append(
            _rule(
                "!has(object.spec.replicas) || (variables.minimum == '' && variables.headroom == '')",
                f"a pool with spec.replicas has that many machines: remove {PREFIX}minimum and "
                f"{PREFIX}headroom",
            )
        )
    rules.append(
        _rule(
            f"{_text(keys.OUTSIDE_HOURS_ANNOTATION)} != 'drain' || {_text(keys.HOURS_ANNOTATION)} != ''",
            f"{keys.OUTSIDE_HOURS_ANNOTATION} has no effect without {keys.HOURS_ANNOTATION}; add it",
        )
    )
    changed = " || ".join(f"{_text(key)} != {_text(key, 'oldObject')}" for key in read)
    return Policy(
        f"{kind.INFO.kind.lower()}-settings",
        (kind,),
        tuple(rules),
        variables=(
            ("limits", f"{present} ? {limits} : {{}}"),
            ("minimum", _uncommented(keys.MINIMUM_ANNOTATION)),
            ("headroom", _uncommented(keys.HEADROOM_ANNOTATION)),
        ),
        conditions=(
            ("changed", f"oldObject == null || object.spec != oldObject.spec || {changed}"),
        ),
    )


def _prefixes(path: str) -> list[str]:
    """``a.b.c.d`` -> ``a.b.c``, ``a.b.c.d``; the first two parts always exist."""
    parts = path.split(".")
    return [".".join(parts[: count + 1]) for count in range(2, len(parts))]


def _text(key: str, of: str = "object") -> str:
    return _value_of("annotations", key, of)


def _uncommented(key: str) -> str:
    lines = f"{_text(key)}.split('\\n').filter(l, !l.trim().startsWith('#'))"
    return f"{lines}.join('\\n')"


def _assigned(name: str) -> str:
    """Matches ``cpu: 4`` and ``"cpu": "4"``."""
    return rf"\\b{name}[\"]?[ ]*:[ ]*[\"]?{_AMOUNT}"


def _class_kind(name: str, kind: Kind) -> Policy:
    """Only one kind of class exists; another is found by nobody."""
    ref, info = f"object.{_CLASS_REFS[kind]}", EC2NodeClass.INFO
    return Policy(
        name,
        (kind,),
        (
            _rule(
                f"{ref}.group == '{info.group}' && {ref}.kind == '{info.kind}'",
                f"nodeClassRef must name an {info.kind} of {info.group}",
            ),
        ),
        conditions=(*_CHANGED_SPEC, *_ours_alone(kind)),
    )


def _ours_alone(kind: Kind) -> tuple[tuple[str, str], ...]:
    """EKS Auto Mode has NodePools and NodeClaims of its own, which are not ours to refuse."""
    if kind not in _CLASS_REFS:
        return ()
    return (("ours", f"object.{_CLASS_REFS[kind]}.group != '{AUTO_MODE_GROUP}'"),)


def _fit(name: str, written: Kind, other: Kind, *, pool: str, node_class: str) -> Policy:
    """A pool and its class, whichever of both is written; the other is the parameter."""
    template = f"{pool}.spec.template.spec"
    aliases = f"{node_class}.spec.amiSelectorTerms.filter(t, has(t.alias))"
    not_amd64 = f"{_asks(template, keys.ARCH)}.exists(r, !('amd64' in r.values))"
    reserved = f"r.values.all(v, v == '{keys.RESERVED}')"
    rules = (
        (
            "!variables.windows || variables.systems.all(s, 'windows' in s)",
            "the class has Windows images, and the pool allows no Windows",
        ),
        (
            "!variables.linux || variables.systems.all(s, 'linux' in s)",
            "the class has Linux images, and the pool allows no Linux",
        ),
        (
            f"!variables.windows || !{not_amd64}",
            "Windows images exist for amd64 only, and the pool allows no amd64",
        ),
        (
            f"has({node_class}.spec.capacityReservationSelectorTerms) || "
            f"!{_asks(template, keys.CAPACITY_TYPE)}.exists(r, {reserved})",
            "the pool allows reserved capacity only, and the class selects no capacity reservation",
        ),
    )
    who = f"'NodePool ' + {pool}.metadata.name + ', EC2NodeClass ' + {node_class}.metadata.name"
    return Policy(
        name,
        (written,),
        tuple(
            _rule(
                f"{template}.nodeClassRef.group != '{EC2NodeClass.INFO.group}' || "
                f"{template}.nodeClassRef.name != {node_class}.metadata.name || ({text})",
                f"pool and class do not fit: {words}",
                f"{who} + ': {words}'",
            )
            for text, words in rules
        ),
        variables=(
            ("systems", f"{_asks(template, keys.OS)}.map(r, r.values)"),
            ("windows", f"{aliases}.exists(t, t.alias.startsWith('windows'))"),
            ("linux", f"{aliases}.exists(t, !t.alias.startsWith('windows'))"),
        ),
        conditions=_CHANGED_SPEC,
        parameter=other,
    )


def _asks(template: str, key: str) -> str:
    """The pool's requirements that allow only some values of a label."""
    return f"{template}.requirements.filter(r, r.key == '{key}' && r.operator == 'In')"


def _names(kind: Kind, other: Kind) -> Policy:
    """Metrics, events and commands name pools without their kind."""
    return Policy(
        f"{kind.INFO.kind.lower()}-names",
        (kind,),
        (
            _rule(
                "object.metadata.name != params.metadata.name",
                f"a {other.INFO.kind} has this name already; choose another",
            ),
        ),
        conditions=_ours_alone(kind),
        parameter=other,
        operations=("CREATE",),
    )


def _owner(kind: Kind, label: str) -> Policy:
    """Which pool a machine counts for never changes."""
    new, old = _value_of("labels", label), _value_of("labels", label, "oldObject")
    return Policy(
        f"{kind.INFO.kind.lower()}-pool",
        (kind,),
        (
            _rule(
                f"{old} == '' || {new} == {old}",
                f"the label {label} cannot change: it says which pool the machine counts for",
            ),
        ),
        conditions=_ours_alone(kind),
        operations=("UPDATE",),
    )


def _value_of(part: str, key: str, of: str = "object") -> str:
    """A label or annotation, empty when it is absent."""
    held = f"{of}.metadata.{part}"
    return f"(has({held}) && '{key}' in {held} ? {held}['{key}'] : '')"
