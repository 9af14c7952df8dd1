"""The consumers of other clients, as their users know them, on top of this package. The client does not import it."""
