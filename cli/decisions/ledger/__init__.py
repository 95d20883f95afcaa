"""``dovetail ledger``: who causes which part of the cost, what rules cost, and what consolidations saved."""
