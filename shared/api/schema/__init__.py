"""Pydantic schemas of the kinds, one module per kind and version. The CRDs are generated from them."""
