"""The broker's side of logins: SASL mechanisms that verify credentials, and the state machine of a connection's login.

Shares nothing with the client's mechanisms, so that both sides cannot make the same mistake.
"""
