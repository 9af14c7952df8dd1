"""The actors of a world: consumers, members of groups, producers, the log writer, and tests' own code."""
