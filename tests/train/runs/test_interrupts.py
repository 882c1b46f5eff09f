"""Interrupts of a run that has been asked to stop already: it must end at once."""

import pytest

from hardsplat.gpu.device.queue import Fence
from tests.helpers.training import open_session, settings


def test_nobody_waits_again_for_a_batch_whose_figures_were_being_read(
    device, scene, tmp_path, monkeypatch
):
    """Its fence is never signalled again."""

    def interrupt(result):
        raise KeyboardInterrupt

    def wait(fence, eager=False):
        device.wait_idle()
        assert fence.done()

    session = open_session(device, settings(scene, tmp_path / "run"))
    session.run(2)
    monkeypatch.setattr(Fence, "wait", wait)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hardsplat.step.runner.contract.dtype", interrupt)
        session.drain()
    session.destroy()
