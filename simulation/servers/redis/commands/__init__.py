"""The commands that the services may send (``shared.redis.rights``), by the type of the value."""
