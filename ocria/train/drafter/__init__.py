"""Trains a drafter, DFlash or DFlash2, for any target that ocria loads, on the target's own output."""
