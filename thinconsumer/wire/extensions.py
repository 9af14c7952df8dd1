"""The numbers of this project's own additions to the protocol, far above all numbers that Kafka uses.

Ordered delivery (KIP-253) was never part of Kafka. A topic that has it is a *counted* topic: the metadata have its
partition counts. ``initial_partition_count`` is the number of partitions with which linear hashing begins, partitions
from ``undeleted_partition_count`` on are marked for deletion, and ``partition_count_epoch`` counts the changes. Fetch
and Produce requests repeat the undeleted count: a broker that has another one rejects them with
INVALID_PARTITION_METADATA (InvalidPartitionMetadataException in the KIP).

These APIs, tagged fields and the error code exist only between this client and the embedded broker. Other clients never
see them: tagged fields with unknown tags are skipped (KIP-482), the APIs are listed in such a field of ApiVersions, and
the error code answers only requests that carry one of the fields. Other brokers never see them either: a client sends a
field only for topics with such a field in their metadata.
"""

#: API keys from this number on are the project's own. Kafka's keys are below 100.
FIRST_API_KEY = 25_300
#: Tags from this number on are the project's own. Kafka's tags are below 10.
FIRST_TAG = 25_300
#: Error codes from this number on are the project's own. Kafka's codes are below 140.
FIRST_ERROR_CODE = 25_300
