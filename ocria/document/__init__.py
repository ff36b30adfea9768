"""Files in, documents out: open, look, route, render, find lines, assemble, write.

Only `reader.py` talks to the engine. Nothing here imports torch at module level.
"""
