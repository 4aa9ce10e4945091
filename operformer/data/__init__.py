"""Data from outside: pairs (u, z) read from files of many formats, and what they look like."""
