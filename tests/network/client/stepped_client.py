"""The network client of the tests of this folder."""

from thinconsumer.network.client import NetworkClient


class Stepped(NetworkClient):
    """A network client that is stepped alone, as part of an engine otherwise."""

    @property
    def agenda(self):
        return self._agenda

    @property
    def commands(self):
        return self._shared.commands

    def step_due(self, now):
        """Step what is due; return the reasons to refresh metadata, and whether anything was due."""
        self.polls.horizon = self.polls.after
        due = list(self.agenda.take(now))
        return self.step(now, due), bool(due)

    def take_answers(self):
        answers = self.answers[:]
        self.answers.clear()
        return answers
