"""Plots: whatever a file is called, its name is drawn as it is."""

import pytest

from hardsplat.report import charts

NAMES = ["a$\\frac$.png", "$", "$x^2$", "a_b^c{}\\", "\udcff.png", "two\nlines", "100 % & <b>"]


@pytest.mark.parametrize("name", NAMES)
def test_every_place_for_words_takes_them(name):
    page = charts.figure(4, 3)
    axes = page.subplots()
    axes.plot([1, 10], [1, 100], label=name)
    axes.set(title=name, xlabel=name, ylabel=name, yscale="log")
    axes.annotate(name, (1, 1))
    axes.legend()
    charts.legend(axes)
    page.suptitle(name)
    svg = charts.svg(page).decode()
    if name == "$x^2$":
        assert svg.count(">$x^2$<") == 7
        # powers of ten on the axis are formulas still
        assert ">$\\mathdefault" not in svg and "<!-- $\\mathdefault{10^{2}}$ -->" in svg
