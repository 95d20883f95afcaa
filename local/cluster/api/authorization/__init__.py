"""Authentication and authorization: bearer tokens, ServiceAccounts and RBAC, as a real API server evaluates them."""
