"""Decode many batches at once to columns: numpy arrays of offsets, timestamps, and positions of keys and values.

Import these modules only when they are needed: numpy is optional (``pip install 'thinconsumer[fast]'``), and so is
pyarrow for :meth:`~.record_columns.RecordColumns.to_arrow`. ``walk`` finds the positions of records, ``fields`` reads
their fields, ``decode`` combines them for all batches of a poll, and ``record_columns`` has the class that users get.
"""
