"""Enables thinconsumer's pytest fixtures for the tests in this folder."""

pytest_plugins = ["thinconsumer.testing.fixtures"]
