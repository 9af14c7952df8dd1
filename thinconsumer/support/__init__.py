"""Values and helpers that every other room may use: time, the agenda, pending results, state machines."""
