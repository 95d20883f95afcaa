"""``dovetail ledger``: who causes which part of what the machines cost, and what consolidations saved."""
