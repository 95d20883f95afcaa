"""Settings of every service, as pydantic models: name, type, default, meaning; one module per service.

docs/operating/settings.md explains them.
"""
