"""The classic group protocol: join, sync, heartbeat, leave; one member computes the plan for all."""
