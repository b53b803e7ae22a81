"""Files as rows: Parquet, CSV and JSON lines, and the mapping from columns to the parts of a message.

These modules must not know jobs, topics or the client. Read in this order: `columns` (names), `text_lines` (lines, and
parsers of lines), `csv_records` and `csv_lines`, `json_lines`, `inputs` (the three formats as one), `mapping`.
"""
