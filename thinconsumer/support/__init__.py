"""Helpers that every other room may use: backoff, the agenda, pending results, state machines, lazy dataclasses."""
