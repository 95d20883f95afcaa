"""The services' ways to a server: proxies that disturb them, and what their requests show."""
