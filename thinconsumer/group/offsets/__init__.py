"""The offsets of a group: committed by a call or by auto-commit, and read back."""
