"""Dynamic resource allocation: devices of nodes and instance types, and the claims of pods to them."""
