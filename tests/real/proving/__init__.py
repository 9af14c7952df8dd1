"""What the tests on real clusters judge by: the Java consumer's word, ledgers of what was written, and figures."""
