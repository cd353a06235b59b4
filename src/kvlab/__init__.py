"""A deterministic simulator of the KV cache of an LLM server and of the scheduler around it."""
