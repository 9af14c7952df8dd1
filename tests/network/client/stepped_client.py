"""The network client of the tests of this folder."""

from thinconsumer.network.client import NetworkClient


class Stepped(NetworkClient):
    """A network client that is stepped alone, as part of an engine otherwise."""

    def step_due(self, now):
        """Step what is due; return the reasons to refresh metadata, and whether anything was due."""
        due = list(self._agenda.take(now))
        return self.step(now, due), bool(due)

    def wake_at(self):
        return self._stepped_at if self.wants_driver() else max(self._stepped_at, self._agenda.next())
