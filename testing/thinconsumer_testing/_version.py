"""The version, equal to that of thinconsumer, in a module of its own: the build reads it without an import."""

__version__ = "0.1.0"
