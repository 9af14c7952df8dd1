"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; the leader computes the assignment."""
