"""What is known about pictures without opening them: columns, records, filters, captions from tags."""
