"""Decode many batches at once to columns: numpy arrays of offsets, timestamps, and positions of keys and values.

All code that needs numpy is here; only :meth:`~.record_columns.RecordColumns.to_arrow` imports pyarrow. Both packages
are optional (``pip install 'thinconsumer[arrow]'``), so import these modules only when columns are requested.

``walk`` finds the positions of records, ``fields`` reads their fields, ``decode`` combines them for all batches of a
poll, and ``record_columns`` holds the class that users get.
"""
