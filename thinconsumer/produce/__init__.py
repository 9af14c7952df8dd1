"""A small idempotent producer for the simulation, the command line and Spark's sink.

::

    settings = ProducerSettings.from_options(bootstrap_servers="localhost:9092")
    with Producer(settings, driver=driver) as producer:
        future = producer.send("orders", b"value", key=b"key")
        producer.flush()
        future.result().offset

The driver that is passed in provides I/O, clock and randomness. There is no thread: records are sent inside ``poll``,
``flush`` and ``close``, and inside ``send`` only while it waits for room. An event loop uses ``fileno()``,
``wake_at()`` and ``poll(0)``, with ``max_block_ms=0``.

Guarantees:

* **Settled once.** Each future is settled exactly once, with an offset or a typed error, and by ``close`` at the
  latest. If the application polls at ``wake_at()``, this takes at most ``delivery_timeout_ms`` from the creation of the
  record's batch; a late ``poll`` leaves one second more, to read responses. After a timeout, a lost connection or
  ``close`` a record may have been written although its future has an error.
* **In order.** While a topic's partition count stays the same, a partition's log has the acknowledged records in the
  order of ``send``. A batch is sent once the batch before it is settled. If a batch that was sent fails, a new epoch
  begins, so that the broker rejects requests of the old epoch that arrive late.
* **Once.** An acknowledged record is in the log once, however often it was sent: it keeps its sequence number, and the
  broker accepts each number once (KIP-98). Records are sent with ``acks=all``. A broker that rejects a batch with
  OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID has lost earlier batches or the producer's state, so the batch is
  sent again under the next epoch. The guarantee does not cover a batch in flight if meanwhile the broker forgets the
  producer (``producer.id.expiration.ms``, a day) or removes the partition, or if a new producer id follows the
  partition's 32,768th epoch.
* **In order by key** on counted topics, also while their partition count changes: a record is moved to another
  partition only when each earlier record with its key is acknowledged, has failed, or was moved there before it.
  Records that were sent to an explicit partition stay there.
* **Bounded.** At most ``buffer_memory`` bytes of records are held, plus one encoded batch per partition; every call
  returns within its timeout, unless a name lookup blocks.
* **Interruptible.** Ctrl-C inside a call loses no record that ``send`` has taken: the next call reconnects and sends
  every batch without a response again; the broker drops duplicates.

Not supported: transactions, ``acks`` other than ``all``, ``linger.ms`` (a batch is sent as soon as the connection is
free), interceptors. After Java's producer; KIP-91, KIP-98, KIP-360, KIP-467, KIP-480, KIP-516, KIP-794, KIP-951.
"""

from .accumulator import BufferFullError
from .batch import RecordMetadata, SendFuture
from .producer import Producer
from .settings import ProducerSettings

__all__ = ["BufferFullError", "Producer", "ProducerSettings", "RecordMetadata", "SendFuture"]
