"""The commands ``demo`` and ``broker`` of ``python -m thinconsumer``: see :mod:`thinconsumer.cli`."""
