"""Fits of images. `hardsplat.fit(image, **settings)` is app/hardsplat/fit/api.py."""

from hardsplat.base.callables import make_callable

make_callable(__name__, "hardsplat.fit.api:fit")
