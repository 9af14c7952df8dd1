"""Reading: who is asked for what, how answers are believed, and how records are handed over.

``planner`` decides what to ask of which node, ``sessions`` how to say it (KIP-227), ``answers`` reads what comes,
``buffer`` holds it, ``collector`` hands it over; ``offsets`` looks offsets up and ``validation`` asks whether a new
leader still has what was read (KIP-320). ``group`` is never imported here: both meet in ``partitions``.
"""
