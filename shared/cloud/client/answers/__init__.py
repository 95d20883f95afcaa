"""AWS's answers: the required elements of each, and parsers that refuse answers that AWS did not write."""
