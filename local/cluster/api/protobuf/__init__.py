"""The Protocol Buffers encoding of built-in kinds, which Go's typed clients send. It is decoded, never written."""
