"""Record batches of all message formats: from the bytes of a partition in a Fetch response to records, and back.

The main modules: ``batches`` finds the batches in the bytes; ``batch`` reads a header and decodes one batch;
``columns`` (with ``fast_decoder``) reads the records of format 2, ``legacy`` those of formats 0 and 1; ``aborted``
selects the batches that read_committed skips; ``compression`` holds the codecs; ``builder`` encodes.
"""
