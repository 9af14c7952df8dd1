"""The version, equal to that of thinconsumer, in a module that the build may read."""

__version__ = "0.1.0"
