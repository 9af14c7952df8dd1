"""Helpers of several packages: backoff, the agenda, pending results, state machines, lazy dataclasses, imports."""
