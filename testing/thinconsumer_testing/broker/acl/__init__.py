"""Authorization: ACLs, the authorizer that applies them to requests, and the controller's changes to them.

Must not know requests or sockets, except ``checks``, which request handlers call with an ``ApiCall``.
"""
