"""Panes. Each shows a part of the state, and draws again only when that part changed."""
