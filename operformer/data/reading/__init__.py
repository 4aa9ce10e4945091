"""Pairs (u, z) from other people's files: `operformer.read(path)`."""

from operformer.data.reading.inputs import read_inputs
from operformer.data.reading.reader import read, read_blocks

__all__ = ["read", "read_blocks", "read_inputs"]
