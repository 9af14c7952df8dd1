"""Fetched batches as columns: arrays of offsets, timestamps and places in one buffer, and from there to Arrow.

Owns all that needs numpy; pyarrow is imported inside :meth:`~.record_columns.RecordColumns.to_arrow` alone. Both are
optional (``pip install 'thinconsumer[arrow]'``), so that nothing here may be imported before somebody asks for columns.

``walk`` finds where records begin, ``fields`` reads what is in them, ``decode`` does both for all batches of a poll at
once and leaves to the row decoder what is not plain, ``record_columns`` is what users get.
"""
