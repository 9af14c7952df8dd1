"""Checkers beyond those of :mod:`thinconsumer_testing.simulation.checkers`: of logins, and of groups. Each reports:

==================  ================================================================================================
LoginChecker        a request without a session; a re-authentication too early or too late
------------------  ------------------------------------------------------------------------------------------------
of groups
------------------  ------------------------------------------------------------------------------------------------
Views               (nothing) keeps each member's id, generation and assignment, by its coordinator's responses
IdentityChecker     a request with a wrong member id or generation; a request after an unanswered JoinGroup or SyncGroup
DeliveryChecker     records of a partition that the last assignment does not have, or before its callback
CallbackChecker     callbacks that contradict each other, the assignment, or the order of the protocol
Plans               a leader's assignment that gives a partition to two members
CommitChecker       a commit of unprocessed records, or of another member's partition; records processed twice
SingleOwnerChecker  a partition with two owners in one generation
RebalanceChecker    JoinGroups and heartbeats without backoff; rebalances without an end or without a reason
LogVolumeChecker    too many log lines
------------------  ------------------------------------------------------------------------------------------------
of groups with the consumer group protocol
------------------  ------------------------------------------------------------------------------------------------
ConsumerViews       (nothing) keeps each member's epoch and assignment, by its coordinator's responses
HeartbeatChecker    a heartbeat with a wrong epoch, a second one, or one that does not say what its member owns
Reconciliation-     a partition assigned before its former owner acknowledged or was fenced; a commit in an epoch before
Checker             the partition was assigned
GroupLogChecker     an epoch that goes back, or a partition with two owners, in the log; a group that never settles
==================  ================================================================================================
"""
