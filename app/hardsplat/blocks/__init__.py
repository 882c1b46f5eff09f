"""Scenes larger than one GPU: `hardsplat plan`, `hardsplat train --blocks`. A scene is cut into
upright blocks, trained apart on any number of devices, and joined."""
