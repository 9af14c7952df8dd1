"""The assigned partitions, each with its position and state; shared by ``fetch`` and ``group``."""
