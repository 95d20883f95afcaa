"""Settings of the kubelet in an EC2NodeClass: any of its fields, and amounts as CEL expressions (EC-10, EC-11).

The total size of settings beyond the known ones is bounded, because all are written into user data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from shared.api.crd.model import Json, Rule
from shared.api.faults import Path
from shared.api.schema.kubelet import (
    FIXED_FIELDS,
    LARGEST_NUMBER,
    RESERVED_RESOURCES,
    KubeletConfiguration,
)
from shared.api.schema.scalars import quantity
from shared.domain.instance_types.expressions import LONGEST as LONGEST_EXPRESSION
from shared.domain.instance_types.expressions import is_expression

_NAMES = """
address allowedUnsafeSysctls apiVersion authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS
clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles containerLogMaxSize
containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint contentType cpuCFSQuota
cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff
enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery enforceNodeAllocatable
eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim
evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates
fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency imageGCHighThresholdPercent
imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy
imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification kind kubeAPIBurst
kubeAPIQPS kubeReserved kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging
makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memorySwap
memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds nodeStatusMaxImages
nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit podsPerCore
port preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved readOnlyPort
registerNode registerWithTaints registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf
rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap
showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved systemReservedCgroup tlsCertFile
tlsCipherSuites tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir volumeStatsAggPeriod
"""
KNOWN = frozenset(_NAMES.split())
REMOVED = {"containerRuntime": "remove it: every node has containerd"}
"""Settings of older generations -> what to do about them. Some resemble others of today."""
LONGEST_NAME = 100
"""Characters; no setting resembles a longer name, and the comparison of long names is slow."""


def unknown_fault(name: str) -> str:
    """The fault of an unknown name, with the most similar known name; empty for a known name."""
    if name in KNOWN:
        return ""
    if name in REMOVED:
        return f"is not a kubelet setting; {REMOVED[name]}"
    nearest = get_close_matches(name, sorted(KNOWN), n=1) if len(name) <= LONGEST_NAME else []
    fix = f"write {nearest[0]}" if nearest else "see KubeletConfiguration v1beta1 for its settings"
    return f"is not a kubelet setting; {fix}"


MOST_EXTRA_SIZE = 16 * 1024
"""Characters and entries of all settings beyond the known ones together; EC2 limits user data to 16 KiB."""
DEEPEST_EXTRA = 16

MOST_UNKNOWN = 20
"""How many unknown names are reported at once, because the search for a similar name takes a millisecond each."""


def extra_fields(raw: object) -> list[str]:
    """Names of settings in a kubelet object beyond the fixed ones (EC-10)."""
    if not isinstance(raw, Mapping):
        return []
    return [str(key) for key, value in raw.items() if key not in FIXED_FIELDS and value is not None]


def _check_taints(raw: Json) -> Iterable[tuple[Path, str]]:
    if "registerWithTaints" in raw:
        yield (
            ("registerWithTaints",),
            "is not allowed; write the taints in spec.template.spec.taints of the NodePool",
        )


def _check_extra(raw: Json) -> Iterable[tuple[Path, str]]:
    spent = 0
    unknown = islice((one for one in raw if one not in KNOWN), MOST_UNKNOWN)
    reported = {name for name in unknown if isinstance(name, str)}
    for name in raw:
        if name in FIXED_FIELDS or not isinstance(name, str):
            continue  # the schema reports a name that is no text
        size, fault = _weigh(raw[name])
        spent += size + len(name)
        fault = fault or (unknown_fault(name) if name in reported else "")
        if fault:
            yield (name,), fault
    if spent > MOST_EXTRA_SIZE:
        yield (
            (),
            f"settings have more than {MOST_EXTRA_SIZE} characters in total, too many for user data",
        )


def _weigh(value: object) -> tuple[int, str]:
    """(number of characters and entries, fault or "") of any JSON value; stops at the size limit."""
    size, waiting = 0, [(value, 0)]
    while waiting and size <= MOST_EXTRA_SIZE:
        one, depth = waiting.pop()
        size += len(one) if isinstance(one, str) else 1
        if fault := _json_fault(one, depth):
            return size, fault
        inside = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        size += sum(len(key) for key in one) if isinstance(one, dict) else 0
        waiting += [(part, depth + 1) for part in inside]
    return size, ""


def _json_fault(value: object, depth: int) -> str:
    """Why a value, apart from the values inside it, cannot be sent to a node; empty when it can."""
    if depth > DEEPEST_EXTRA:
        return "is nested too deeply"
    if isinstance(value, dict):
        return "" if all(_is_text(key) for key in value) else "keys must be strings"
    if isinstance(value, str):
        return "" if _is_text(value) else "is not valid Unicode"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "is too large"
    known = value is None or isinstance(value, int | float | list)
    return "" if known else "must be a string, a number, a list or an object"


def _whole_or_expression(value: Any) -> int | str:
    """A number of zero or more, or the text of an expression. Raises ValueError with the fault and its fix."""
    if isinstance(value, str):
        return _expression(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number, or a CEL expression in quotes")
    if not 0 <= value <= LARGEST_NUMBER:
        raise ValueError("must be at least 0" if value < 0 else f"must be at most {LARGEST_NUMBER}")
    return value


def _quantity_or_expression(value: Any) -> int | str:
    """A quantity of zero or more, or the text of an expression. Raises ValueError with the fault and its fix."""
    return _expression(str(value)) if is_expression(value) else quantity(value)


def _expression(text: str) -> str:
    """The launcher says in the condition ValidationSucceeded whether it can be evaluated: not every service has CEL."""
    if not text.strip() or text.startswith("-"):
        raise ValueError("must be an amount, or a CEL expression that begins with no minus sign")
    if len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"has more than {LONGEST_EXPRESSION} characters")
    return text


_INT_OR_STRING = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": LONGEST_EXPRESSION,
    "x-kubernetes-int-or-string": True,
}
NumberOrExpression = Annotated[
    Any, PlainValidator(_whole_or_expression), WithJsonSchema(_INT_OR_STRING)
]
ReservedOrExpression = Annotated[
    dict[
        str, Annotated[Any, PlainValidator(_quantity_or_expression), WithJsonSchema(_INT_OR_STRING)]
    ],
    Field(max_length=len(RESERVED_RESOURCES)),
]


def _not_negative(name: str) -> Rule:
    """A rule that no amount of the map ``name`` begins with a minus sign; the fields report it when they are read."""
    cel = (
        f"!has(self.{name}) || self.{name}.all(key, type(self.{name}[key]) == int ? "
        f"self.{name}[key] >= 0 : !string(self.{name}[key]).startsWith('-'))"
    )
    return Rule(f"amounts of {name} must not be negative", cel)


class NodeClassKubelet(KubeletConfiguration):
    """Settings of the kubelet on the nodes.

    With the AL2023 family, any field of KubeletConfiguration is allowed here, except registerWithTaints. maxPods and
    the amounts of systemReserved and kubeReserved may be CEL expressions, evaluated for each instance type.
    """

    PRESERVE_UNKNOWN: ClassVar[bool] = True
    """The CRD's schema preserves fields that it does not list."""
    model_config = ConfigDict(extra="allow")
    RULES: ClassVar[tuple[Rule, ...]] = (
        *KubeletConfiguration.RULES,
        Rule(
            "registerWithTaints is not allowed; taints belong to the NodePool", check=_check_taints
        ),
        Rule(
            "other settings must be kubelet settings, as JSON of a bounded size",
            check=_check_extra,
        ),
        Rule(
            "maxPods must not be negative",
            "!has(self.maxPods) || type(self.maxPods) != int || self.maxPods >= 0",
        ),
        *(_not_negative(name) for name in ("systemReserved", "kubeReserved")),
    )

    max_pods: NumberOrExpression | None = None
    """Maximum number of pods on a node, or a CEL expression that yields it; by default the number of addresses of its
    network interfaces."""
    system_reserved: ReservedOrExpression | None = None
    """Resources reserved for the operating system: cpu, memory, ephemeral-storage, pid. Quantities, or CEL expressions
    that yield millicores, MiB, GiB and a count."""
    kube_reserved: ReservedOrExpression | None = None
    """Resources reserved for Kubernetes' own processes: cpu, memory, ephemeral-storage, pid. Quantities, or CEL
    expressions that yield millicores, MiB, GiB and a count."""

    @classmethod
    def _unknown(cls, raw: Json) -> Iterable[tuple[Path, str]]:
        return ()


def _is_text(value: object) -> bool:
    """Whether the value is a string that can be encoded; half of a surrogate pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)
