"""Scripts that make the documents, and keep them true."""
