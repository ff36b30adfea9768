"""Documents over HTTP: `ocria serve`, an application of Starlette that uvicorn runs.

All state lives in the thread of the event loop. Documents are read in threads (`desk.py`) that share one reader
(`model.py`) and one set of worker processes; what happens there is handed to the loop. docs/serve.md says what clients
see.
"""
