"""The kinds as users write them: one pydantic module per kind and version. CRDs are generated from these."""
