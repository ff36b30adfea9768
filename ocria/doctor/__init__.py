"""What `ocria doctor`, `ocria models` and `ocria cache` find out about a machine."""
