"""The version of the library, for files that say which one wrote them."""

VERSION = "0.2.0"
