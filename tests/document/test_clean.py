import pytest

from ocria.document.clean import clean_text, join_lines


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a broken exam-", "ple of it"], "a broken example of it"),
        (["the well-", "Known Name"], "the well-Known Name"),
        (["state-of-the-", "art"], "state-of-the-art"),
        (["pages 12-", "14"], "pages 12-14"),
        (["one ", "  two", "", "three"], "one two three"),
        (["a dash -", "then more"], "a dash - then more"),
        (["hy\u2010", "phen"], "hyphen"),
        ([], ""),
    ],
)
def test_lines_are_joined(lines, text):
    assert join_lines(lines) == text


def test_ligatures_and_soft_hyphens():
    assert clean_text("eﬃcient ﬁling ﬂoor") == "efficient filing floor"
    assert clean_text("sen\xadtence hy\xad") == "sentence hy-"
    assert join_lines([clean_text("soft hy\xad"), "phens"]) == "soft hyphens"
    assert clean_text("a\x02b\ufffec\x00") == "abc"
