"""The same script of raw requests, told to a real broker and to the embedded one; the answers have to be equal.

``talk`` sends and receives, on sockets and in memory; ``normal`` takes out of answers what may differ (ids, times,
addresses, words); ``scripts`` and its neighbours are the scripts.
"""
