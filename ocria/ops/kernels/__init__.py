"""The Triton kernels and their launchers. Nothing here is imported before a kernel runs."""
