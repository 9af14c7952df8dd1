"""The package's version, in a module that imports nothing, so that the build and every other module may import it."""

__version__ = "0.1.0"
