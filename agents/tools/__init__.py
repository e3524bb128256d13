"""What a model or a program may call: the same functions for function calling and for MCP."""
