"""§3: files to documents, documents to rows, rows to batches; and data that is on every machine."""
