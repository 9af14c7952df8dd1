"""A Kafka cluster without I/O: the server's side of the protocol, built once, with two shells around it.

``server`` puts sockets around it, ``testing`` a network in memory on a virtual clock. It shares the codec with the
client and nothing else, so that it is a second opinion on the protocol and not an echo of the client's.
"""
