"""How fast this machine is with a model, for whoever uses it: measurements within a time, and what follows from them.

`stages` measures the most useful first and fills a `facts.Report`, `advice` says what follows, `report` shows it.
"""
