"""Who asks, and what they may do: bearer tokens, ServiceAccounts and RBAC as a real API server evaluates them."""
