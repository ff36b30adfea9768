"""olmOCR-bench's own folder: `*.jsonl` beside `pdfs/`.

A file that has no baseline test gets one on its first page, as olmOCR-bench does, in the group "baseline".
"""

from __future__ import annotations

from pathlib import Path

from .checks import Baseline
from .rows import BadRow, Test, as_test, read_rows


def olmocr_tests(folder: Path) -> list[Test]:
    """All tests of a folder, groups named after their files. Raises BadRow naming what is wrong with it."""
    pdfs = folder / "pdfs"
    files = sorted(folder.glob("*.jsonl"))
    if not files or not pdfs.is_dir():
        raise BadRow(f"{folder} has no {'pdfs folder' if files else '*.jsonl'}: name the folder that holds both")
    tests, seen = [], {}
    for file in files:
        for where, row in read_rows(file):
            test = as_test(row, file.name, pdfs, where)
            if test.id in seen:
                raise BadRow(f"{where}: id {test.id!r} is that of {seen[test.id]} too")
            if not test.path.is_file():
                raise BadRow(f"{where}: {test.path} is missing")
            seen[test.id] = where
            tests.append(test)
    with_baseline = {test.path for test in tests if test.kind == "baseline"}
    bare = {test.path for test in tests} - with_baseline
    tests += [
        Test(f"{path.relative_to(pdfs)}_baseline", "baseline", "baseline", path, 1, Baseline()) for path in sorted(bare)
    ]
    return tests
