"""A small idempotent producer: for simulation, the command line and what else this package has to write. Internal.

::

    settings = ProducerSettings.from_options(bootstrap_servers="localhost:9092")
    with Producer(settings, driver=driver) as producer:
        receipt = producer.send("orders", b"value", key=b"key")
        producer.flush()
        receipt.result().offset

Sans-IO below :class:`Producer`: a driver that is passed in does the I/O and has the clock and the randomness. There is
no thread; records leave inside ``poll``, ``flush`` and ``close``, and inside ``send`` only while it waits for room.
For an event loop: ``fileno()``, ``wake_at()`` and ``poll(0)``, and ``max_block_ms=0``.

What is promised:

* **Settled once.** Each receipt is settled exactly once, with an offset or a typed error, at most
  ``delivery_timeout_ms`` after its batch was begun if the producer is polled when it asks for it (one second more if
  it was not), and by ``close`` at the latest. An error means: not written as far as anyone knows. After a timeout, a
  lost connection or ``close`` a record may have been written all the same.
* **In order.** What is in a partition's log is there in the order of ``send``: a batch is sent when the one before it
  has been settled, and after one that failed a new epoch begins, which makes the broker refuse whatever of the old one
  is still on its way. Gaps are possible (records whose receipts have errors), swaps are not. Records of a topic that is
  not known yet keep their order, too.
* **Once.** An acknowledged record is in the log once, however often it had to be sent: it keeps its sequence number
  until it is settled, and the broker takes each once (KIP-98). Records acknowledged with ``acks=all`` are lost only as
  Kafka itself loses them, by an unclean election. When a broker has lost what was before a batch
  (OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID), the batch is not in its log either, and is sent again under the
  next epoch. This rests on the broker knowing the producer: one that forgets it (``producer.id.expiration.ms``, a day,
  while an answer is awaited) or the 32,768th epoch of a partition, after which there is another id, ends the promise
  for the batch that is under way then.
* **Bounded.** At most ``buffer_memory`` bytes of records are held, besides one batch per partition as it is written;
  every call returns within its time.
* **Interrupted.** A Ctrl-C inside a call loses nothing that was taken: the next call connects anew and sends again
  what has no answer; the broker sorts out repetitions.

Not there: transactions, ``acks`` other than ``all``, ``linger.ms`` (what is there is sent as soon as the connection is
free), interceptors. After Java's producer; KIP-91, KIP-98, KIP-360, KIP-467, KIP-480, KIP-516, KIP-794, KIP-951.
"""

from .accumulator import BufferFullError
from .batch import Receipt, RecordMetadata
from .producer import Producer
from .settings import ProducerSettings

__all__ = ["BufferFullError", "Producer", "ProducerSettings", "Receipt", "RecordMetadata"]
