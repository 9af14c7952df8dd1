"""SASL: the client's side of every mechanism, the login of one connection, and the tokens and credentials for it.

Mechanisms are state machines over bytes, without sockets or clocks; time and randomness are arguments.
"""
