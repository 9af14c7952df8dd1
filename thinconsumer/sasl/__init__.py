"""SASL: the client's side of every mechanism, the login of one connection, and the tokens and credentials for it.

Mechanisms are state machines over bytes: time and randomness are arguments. Only Kerberos' library does its own I/O.
"""
