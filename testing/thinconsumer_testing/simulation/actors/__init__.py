"""The simulated processes (actors): consumers, producers, and tests' own code."""
