"""Names of all settings in KubeletConfiguration v1beta1 (EC-10). Pure.

The kubelet ignores unknown names silently, so they are refused here.
"""

from __future__ import annotations

from difflib import get_close_matches

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
LONGEST_NAME = 100
"""Characters; no setting resembles a longer name, and the comparison of long names is slow."""


def unknown_fault(name: str) -> str:
    """The fault of an unknown name, with the most similar known name; empty for a known name."""
    if name in KNOWN:
        return ""
    nearest = get_close_matches(name, sorted(KNOWN), n=1) if len(name) <= LONGEST_NAME else []
    fix = f"write {nearest[0]}" if nearest else "see KubeletConfiguration v1beta1 for its settings"
    return f"is not a kubelet setting; {fix}"
