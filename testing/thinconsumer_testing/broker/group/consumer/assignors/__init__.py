"""The assignors of the coordinator: pure functions from members and partition counts to a target assignment.

They are not the assignors of classic groups, which run in the client and get other input. Assignors of the user are
objects (:mod:`.user_assignor`).
"""
