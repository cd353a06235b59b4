"""What the documents show of the code, as text."""
