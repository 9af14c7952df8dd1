"""The references of tests on real clusters: the Java consumer's records, the written records, and measured times."""
