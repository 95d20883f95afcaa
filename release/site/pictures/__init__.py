"""The pictures of docs/concepts.md."""
