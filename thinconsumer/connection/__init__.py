"""One broker connection without its socket: framing, correlation, negotiation of versions, login, throttling."""
