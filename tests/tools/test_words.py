"""The prose of documents keeps the rules of tools/words.py."""

import pytest

from tools import words


def rules(text, check=words.long_sentences):
    return [offence.rule for offence in check("a.md", text)]


@pytest.mark.parametrize("place", words.DOCUMENTS)
def test_documents(place):
    assert (words.ROOT / place).exists()
    found = list(words.offences((place,)))
    assert not found, "\n".join(map(str, found))


def test_lines_of_other_documents():
    paths = [p for p in words.tracked(("docs",)) if p.endswith(".md")]
    found = [o for p in paths for o in words.prose_columns(p, (words.ROOT / p).read_text())]
    assert not found, "\n".join(map(str, found))


def test_first_paragraph_of_the_readme_is_short():
    paragraphs = (words.ROOT / "README.md").read_text().split("\n\n")
    assert len(paragraphs[1].split()) <= 60


def test_tables_of_the_readme_have_at_most_six_rows():
    paragraphs = (words.ROOT / "README.md").read_text().split("\n\n")
    tables = [p.strip().splitlines() for p in paragraphs if p.startswith("|")]
    assert tables and max(map(len, tables)) <= 6 + 2


def test_glossary_fits_a_page_and_has_each_term_once():
    lines = (words.ROOT / "docs/glossary.md").read_text().splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert 35 <= len(terms) <= 40 and len(set(terms)) == len(terms)


@pytest.mark.parametrize("break_", [" ", "\n", "\n# ", "\n    // "])
def test_phrases_are_found_across_lines(break_):
    text = f"photographs learnt\nby{break_}heart"
    assert [offence.line for offence in words.phrases("a", text)] == [2]


def test_long_sentences():
    exact, longer = "Word" + " word" * 34, "Word" + " word" * 35
    assert rules(f"{exact}.\n{exact}. {exact}.") == []
    assert rules(f"{exact}.\n\n{longer}.") == ["36 words"]
    assert rules(f"- {exact}\n- {exact}\n\n```\n{longer}\n```\n| {longer} |") == []
    assert rules(f"{longer.replace('word word', '`word word word`')}") == []


def test_docstrings():
    long = " ".join(["word"] * 36)
    text = f'''"""Of a module."""
def public():
    """{long}"""
def _private():
    """{long}"""
def same():
    """The same again."""
def fine():
    """Asks nothing."""
'''
    assert rules(text, words.docstrings) == ["docstring opens", "36 words", "docstring opens"]


def test_columns(tmp_path):
    assert rules("a" * 100, words.columns) == []
    assert rules("a" * 101, words.columns) == ["101 columns"]
