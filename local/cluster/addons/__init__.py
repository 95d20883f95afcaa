"""What an EKS cluster runs on every node: its usual add-ons, as DaemonSets that ask for what theirs ask for."""
