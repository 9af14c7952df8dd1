"""Fetch records, look up offsets and validate positions.

``planner`` decides which partitions to fetch from which node, and ``sessions`` encodes that as fetch session requests
(KIP-227). ``answers`` handles Fetch responses, ``buffer`` holds their batches, and ``collector`` decodes them for a
poll. ``leader_queries`` sends ListOffsets, ``resets`` applies the offset reset policy, and ``validation`` checks with
OffsetForLeaderEpoch that a new leader's log still contains the position (KIP-320).
"""
