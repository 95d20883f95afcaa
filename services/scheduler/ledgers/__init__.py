"""What rules of workloads cost, and what consolidations saved: ``GET /explain/ledgers/…``."""
