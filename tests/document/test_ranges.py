import pytest

from ocria.document.ranges import parse_ranges, select_pages
from ocria.errors import UsageError


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("1", [1]),
        ("1-3,8", [1, 2, 3, 8]),
        (" 8 , 1 - 3 ", [1, 2, 3, 8]),
        ("2,2,1-2", [1, 2]),
        ("9-", [9, 10]),
        ([3, 1], [1, 3]),
        (None, list(range(1, 11))),
    ],
)
def test_pages_are_one_based_and_sorted(text, pages):
    assert select_pages(text, 10) == pages


@pytest.mark.parametrize("text", ["0", "11", "3-1", "1-11", "a", "", "1,,2", "-3", "1-2-3", "1.5", [0], [11], []])
def test_bad_ranges_are_refused(text):
    with pytest.raises(UsageError):
        select_pages(text, 10)


def test_a_page_0_is_refused_before_a_document_is_there():
    with pytest.raises(UsageError, match="no page 0"):
        parse_ranges("2,0-3")


def test_a_reversed_range_is_named():
    with pytest.raises(UsageError, match="'7-5' is reversed"):
        parse_ranges("1-3, 7-5")
