"""The simulated processes (actors): consumers, group members, producers, the log writer, and tests' own code."""
