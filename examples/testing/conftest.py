"""What the tests of this folder get: the fixtures that thinconsumer has for other people's projects."""

pytest_plugins = ["thinconsumer.testing.fixtures"]
