"""The Protocol Buffers form of built-in kinds, which Go's typed clients send: decoded, never written."""
