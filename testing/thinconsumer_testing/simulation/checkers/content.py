"""Checks that delivered records are equal to those in the log, and that the isolation level allows them."""

from typing import Any

from thinconsumer.types import ConsumerRecord

from .base import Checker, Records, SimReader


class ContentChecker(Checker):
    """Checks that each polled record was committed (replicated to all in-sync replicas), and equals the log's record.

    Under read_committed, the transaction of a transactional record must be committed, too.
    """

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp, found in records.items():
            truth = self.truth(tp)
            if truth is None:
                self.accuse(f"{reader} got records of {tp.topic}-{tp.partition}, which does not exist")
                return
            rows = truth.rows
            for record in found:
                row = rows.get((record.offset, record.leader_epoch))
                if row != record:
                    self.accuse(_what_is_wrong(reader, record, row))
                    return
                if reader.read_committed and truth.is_hidden(record.offset, record.leader_epoch):
                    self.accuse(f"{reader} read {_name(record)}, whose transaction is open or was aborted")
                    return


def _what_is_wrong(reader: SimReader, record: ConsumerRecord[Any, Any], row: ConsumerRecord[Any, Any] | None) -> str:
    if row is None:
        return f"{reader} read {_name(record)}, which was never committed: {record!r}"
    return f"{reader} read {_name(record)} as {record!r}, but the log has {row!r}"


def _name(record: ConsumerRecord[Any, Any]) -> str:
    return f"{record.topic}-{record.partition} offset {record.offset} of epoch {record.leader_epoch}"
