"""Results as other files: a page for browsers, splats in other formats."""

from hardsplat.base.callables import make_callable

make_callable(__name__, "hardsplat.export.page:export")
