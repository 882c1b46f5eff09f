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


def test_curves_that_are_drawn_in_two_goes_are_those_of_one():
    loss = [0.1 + 1 / n for n in range(1, 61)]
    many = dict(step=[*range(60)], loss=loss, psnr=[20.0] * 60, splats=[*range(60)])
    metrics = {"curve": many | {"seconds": [0.1 * n**1.2 for n in range(60)]}}
    metrics |= {"evaluations": [{"step": 59, "psnr": 31.0}]}
    ahead = charts.CurvesAhead()
    ahead.draw(metrics["curve"])
    assert ahead.png(metrics) == charts.png(charts.curves(metrics))
