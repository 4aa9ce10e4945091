"""Pairs (u, z) from other people's files: `operformer.read(path)`."""

from operformer.data.reading.reader import read, read_blocks, read_inputs

__all__ = ["read", "read_blocks", "read_inputs"]
