"""Room that is kept for pods that do not exist yet: what CapacityBuffers and ProvisioningRequests are answered."""
