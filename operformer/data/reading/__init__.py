"""Pairs (u, z) from other people's files: `operformer.read(path)`."""

from operformer.data.reading.reader import read

__all__ = ["read"]
