"""Simulated processes of the swarms: group members, workers, the log writer, and members with ordered delivery."""
