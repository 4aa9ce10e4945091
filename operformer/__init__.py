"""Transformers that act on functions: continuum attention and the neural operators built on it."""

__version__ = "0.1.0"
