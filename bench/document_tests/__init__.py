"""Document tests: small facts about pages that an output either keeps or breaks.

In the spirit of olmOCR-bench (Allen Institute for AI), whose file format `document_tests.olmocr` reads. A fact is
one check of `document_tests.checks`; facts come from pages drawn here, whose truth is known
(`document_tests.own_pages`, `document_tests.own_scans`), and from real samples (`facts.jsonl`).
"""
