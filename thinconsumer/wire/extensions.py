"""The numbers of this project's own additions to the protocol, far above all numbers that Kafka uses.

Ordered delivery (KIP-253) was never part of Kafka. A topic that has it is a *counted* topic: the metadata have its
partition counts. ``initial_partition_count`` is the number of partitions with which linear hashing begins, partitions
from ``undeleted_partition_count`` on are marked for deletion, and ``partition_count_epoch`` counts the changes. Fetch
and Produce requests repeat ``undeleted_partition_count``: a broker with another count rejects them with
INVALID_PARTITION_METADATA (InvalidPartitionMetadataException in the KIP).

APIs, tagged fields and error codes with these numbers exist only between this client and the embedded broker. Other
clients skip the tagged fields, as all unknown tags (KIP-482); the APIs are listed in a tagged field of ApiVersions, and
the error code answers only requests with one of the tagged fields. Other brokers get none of them: this client sends a
tagged field only for topics that have the tagged fields in their metadata.
"""

#: API keys from this number on are the project's own. Kafka's keys are below 100.
FIRST_API_KEY = 25_300
#: Tags from this number on are the project's own. Kafka's tags are below 10.
FIRST_TAG = 25_300
#: Error codes from this number on are the project's own. Kafka's codes are below 140.
FIRST_ERROR_CODE = 25_300
