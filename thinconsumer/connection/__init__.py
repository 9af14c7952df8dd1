"""Connections to brokers, without sockets: framing, correlation ids, negotiation of versions, login, throttling."""
