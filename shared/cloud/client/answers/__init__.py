"""AWS's answers: what each must have, and parsers that refuse what AWS did not write."""
