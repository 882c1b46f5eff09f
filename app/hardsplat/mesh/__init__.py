"""Triangle meshes of splats: depth of the training cameras, fused to a distance field."""

from hardsplat.base.callables import make_callable

make_callable(__name__, "hardsplat.mesh.build:mesh")
