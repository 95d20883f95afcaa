"""The usual add-ons of an EKS cluster, as DaemonSets with the resource requests of the real ones."""
