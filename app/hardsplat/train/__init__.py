"""Training of scenes. `hardsplat.train(scene, **settings)` is app/hardsplat/train/api.py."""

from hardsplat.base.callables import make_callable

make_callable(__name__, "hardsplat.train.api:train")
