"""The broker's side of logins: SASL mechanisms that verify credentials, and the state machine of a connection's login.

Shares no code with the client's mechanisms: tests would not find a mistake in code that both sides use.
"""
