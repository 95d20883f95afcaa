"""Objects of other autoscalers: CapacityBuffers, ProvisioningRequests and VerticalPodAutoscalers."""
