"""The log writer appends equal records for equal seeds, and leaves no transaction open."""

from dataclasses import replace

from lab.actors.log_writer import OPEN_MAX, LogWriter
from lab.knobs import Knobs

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Simulation

TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]
SECONDS = 5.0
PLAIN = {"writes": 20, "records_max": 5, "record_size_max": 10, "transactional": 0.0, "compression": False}


class Desk:
    """A small cluster, and a log writer."""

    def __init__(self, seed=1, brokers=1, **knobs):
        self.sim = Simulation(seed, brokers=brokers, topics={"t": 2}, checkers=[])
        knobs = replace(Knobs.draw(1), **PLAIN | knobs)
        self.log_writer = LogWriter(self.sim.world, lambda: self.sim.cluster, lambda: TPS, knobs, SECONDS)

    def logs(self):
        return [self.sim.cluster.leader(tp).log for tp in TPS]

    def batches(self):
        return [batch for log in self.logs() for batch in log.read_batches(0, log.end_offset)]

    def rows(self):
        return [row for tp in TPS for row in self.sim.cluster.truth(tp).rows.values()]

    def events(self):
        return [line.event for line in self.sim.trace if line.actor == "log writer"]

    def run(self, seconds=SECONDS + 1):
        self.sim.run_for(seconds)
        return self

    def finish(self):
        """Call ``finish`` until every transaction has ended; return the number of calls."""
        for attempt in range(1, 10):
            if self.log_writer.finish():
                return attempt
            self.sim.run_for(0.5)
        raise AssertionError("some transaction never ends")


def test_writer_counts_its_batches_and_stops_in_time():
    desk = Desk().run()
    rows = desk.rows()
    assert desk.log_writer.written == len(rows) > 20
    assert desk.log_writer.batches == len(desk.batches()) == desk.events().count("wrote")
    assert 10 < desk.log_writer.batches < 40  # about as many as the knob says
    before = desk.log_writer.written
    assert desk.run(10).log_writer.written == before
    assert {row.partition for row in rows} == {0, 1}


def test_transactions_commit_and_abort_and_none_stays_open():
    desk = Desk(transactional=0.9, writes=80)
    most = 0
    while desk.sim.now() < desk.log_writer._until:
        desk.run(0.1)
        producers = {producer for log in desk.logs() for producer in log.open_transactions()}
        most = max(most, len(producers))
    assert 1 < most <= OPEN_MAX
    desk.finish()
    assert not any(log.open_transactions() for log in desk.logs())
    log_writer = desk.log_writer
    assert log_writer.committed > 0
    assert log_writer.aborted > 0
    hidden = {row.offset for row in desk.rows() if desk.sim.cluster.truth(TPS[row.partition]).is_hidden(row.offset, 0)}
    assert hidden  # aborted records
    assert desk.finish() == 1


def test_transaction_unknown_to_its_coordinator_is_aborted_at_the_end():
    """An unclean election that lost a marker leaves such a transaction."""
    desk = Desk().run()
    producer = desk.sim.cluster.new_producer_id()
    sent = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    at = desk.sim.produce("t", 0, [b"hanging"], **sent)
    assert dict(desk.logs()[0].open_transactions()) == {producer: at}
    assert not desk.log_writer.finish()
    assert desk.finish() == 1
    assert not desk.logs()[0].open_transactions()
    assert desk.sim.cluster.truth(TPS[0]).is_hidden(at, desk.logs()[0].epochs.latest)
    assert desk.events()[-1] == "aborted"
