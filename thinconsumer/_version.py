"""The package's version, in a module that imports nothing, so that every room and the build may read it."""

__version__ = "0.1.0"
