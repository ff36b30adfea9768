"""Screens over the app that ask one thing and give back the answer, or None."""
