"""One Vulkan device for the session, with validation layers on and fresh memory poisoned; a validation message fails the test that caused it."""

import os

os.environ.setdefault("HARDSPLAT_VALIDATION", "1")
os.environ.setdefault("HARDSPLAT_POISON", "1")

import pytest


@pytest.fixture(scope="session")
def session_device():
    from app.gpu.context import Device

    return Device()


@pytest.fixture
def device(session_device):
    session_device.check_validation()
    yield session_device
    session_device.check_validation()
