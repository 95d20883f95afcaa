"""ValidatingAdmissionPolicies: rules in CEL over a whole object, the one before, and a parameter.

Differences from a real server: only the action Deny has an effect, variables are evaluated before they are used, a rule
does not see who sends the request, and there are neither namespace selectors nor exceptions by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import cel

from local.cluster.api.errors import ApiError, FieldError, forbidden, invalid_value
from local.cluster.builtin.resources import ADMISSION_GROUP, Resource
from local.cluster.crd.cel_values import FAILURES, cel_value
from local.cluster.storage.selectors import selector_matches
from local.cluster.storage.watches import Document
from shared.domain.devices.cel_functions import FUNCTIONS

if TYPE_CHECKING:
    from local.cluster.storage.store import Store

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
DENY = "Deny"


class Write(NamedTuple):
    """One create or update, as policies see it."""

    resource: Resource
    document: Document
    old: Document | None

    @property
    def operation(self) -> str:
        """CREATE or UPDATE."""
        return "CREATE" if self.old is None else "UPDATE"

    def variables(self) -> Document:
        """``object``, ``oldObject`` and ``request``."""
        metadata = self.document["metadata"]
        request = {
            "operation": self.operation,
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
        }
        old = None if self.old is None else cel_value(self.old, {})
        return {"object": cel_value(self.document, {}), "oldObject": old, "request": request}


def check_write(store: Store, write: Write) -> None:
    """Raises ApiError with the first refusal of a policy that is bound."""
    bindings = store.list(BINDINGS, group=ADMISSION_GROUP)
    if not bindings:
        return
    held = {one["metadata"]["name"]: one for one in store.list(POLICIES, group=ADMISSION_GROUP)}
    for binding in bindings:
        spec = binding["spec"]
        policy = held.get(spec.get("policyName"))
        if policy is None or DENY not in spec.get("validationActions", ()):
            continue
        if not _is_about(policy["spec"], write):
            continue
        for params in _parameters(store, policy["spec"], spec.get("paramRef")):
            message = next(_refusals(policy["spec"], write, params), None)
            if message is not None:
                raise _refused(write, policy, binding, message)


def _is_about(spec: Document, write: Write) -> bool:
    resource = write.resource
    wanted = {
        "apiGroups": resource.group,
        "apiVersions": resource.version,
        "resources": resource.plural,
        "operations": write.operation,
    }
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    return any(
        all({"*", value} & set(rule.get(field) or ()) for field, value in wanted.items())
        for rule in rules
    )


def _parameters(store: Store, spec: Document, ref: Document | None) -> Iterable[Document | None]:
    """Each parameter with which the policy is evaluated; without a ``paramKind`` once with none."""
    kind = spec.get("paramKind")
    if kind is None or ref is None:
        return (None,)
    group = kind["apiVersion"].rpartition("/")[0]
    served = (one for one in store.served() if (one.group, one.kind) == (group, kind["kind"]))
    plural = next((one.plural for one in served), None)
    found = store.list(plural, group=group) if plural else []
    if ref.get("name"):
        return [one for one in found if one["metadata"]["name"] == ref["name"]]
    selector = ref.get("selector") or {}
    return [one for one in found if selector_matches(selector, one["metadata"].get("labels") or {})]


def _refusals(spec: Document, write: Write, params: Document | None) -> Iterator[str]:
    """The messages of the rules that do not hold. An error counts as a refusal unless the policy ignores errors."""
    variables = {**write.variables(), "params": cel_value(params, {}), "variables": {}}
    try:
        if not all(_value(c["expression"], variables) for c in spec.get("matchConditions") or ()):
            return
        for one in spec.get("variables") or ():
            variables["variables"][one["name"]] = _value(one["expression"], variables)
        for rule in spec.get("validations") or ():
            if _value(rule["expression"], variables) is not True:
                yield _message(rule, variables)
    except FAILURES as error:
        if spec.get("failurePolicy") != "Ignore":
            yield str(error)


def _message(rule: Document, variables: Document) -> str:
    if rule.get("messageExpression"):
        try:
            return str(_value(rule["messageExpression"], variables))
        except FAILURES:
            return str(rule.get("message") or rule["expression"])
    return str(rule.get("message") or f"failed expression: {rule['expression']}")


def _value(text: str, variables: Document) -> Any:
    program, functions = _compiled(text.strip())
    return program.execute(cel.Context(variables, functions))


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[cel.Program, dict[str, Any]]:
    """Raises ValueError for a syntax error."""
    program = cel.compile(text)
    called = set(program.functions())
    return program, {n: do for n, do in FUNCTIONS.items() if n.rpartition(".")[2] in called}


def policy_errors(resource: Resource, document: Document) -> Iterator[FieldError]:
    """Expressions of a policy that do not compile."""
    if resource.plural != POLICIES:
        return
    spec = document.get("spec") or {}
    for part, fields in (
        ("matchConditions", ("expression",)),
        ("variables", ("expression",)),
        ("validations", ("expression", "messageExpression")),
    ):
        for index, one in enumerate(spec.get(part) or ()):
            for field in fields:
                text = one.get(field) or ("" if field != "expression" else " ")
                try:
                    if text:
                        _compiled(text.strip())
                except ValueError as error:
                    path = f"spec.{part}[{index}].{field}"
                    yield invalid_value(path, text, f"compilation failed: {error}")


def _refused(write: Write, policy: Document, binding: Document, message: str) -> ApiError:
    text = (
        f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding "
        f"'{binding['metadata']['name']}' denied request: {message}"
    )
    error = forbidden(write.resource, write.document["metadata"].get("name", ""), text)
    return ApiError(422, "Invalid", error.message, {**error.details, "causes": [{"message": text}]})
