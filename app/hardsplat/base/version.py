"""The version of hardsplat, which the package shows as `hardsplat.__version__`."""

__version__ = "0.1.0"
