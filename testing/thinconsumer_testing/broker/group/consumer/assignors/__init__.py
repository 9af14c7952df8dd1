"""The assignors of the coordinator: pure functions from members and partition counts to a target assignment.

They are not those of classic groups, which run in the client and get other input. Those of the user are objects
(:mod:`.user_assignor`).
"""
