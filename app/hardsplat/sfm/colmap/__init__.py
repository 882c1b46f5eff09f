# Pillow's libraries come before pycolmap's: the other way round, writing PNG destroys memory
# (docs/results/environment.md).
import PIL.Image  # noqa: F401
