"""Videos: what is written reads back in colours and times; refusals are one line."""

import gc
from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image, ImageSequence

from hardsplat.base.errors import UserError
from hardsplat.io.media import video as module
from hardsplat.io.media.video import CODECS, VideoWriter, frames
from tests.helpers.tables import refuses


def ramp(width, height, i) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    picture = np.dstack([x * 255 // width, y * 255 // height, np.full_like(x, 36 * i)])
    return picture.astype(np.uint8)


def written(path, pictures, fps=12.5):
    video = VideoWriter(path, *pictures[0].shape[1::-1], fps)
    for picture in pictures:
        video.write(picture)
    video.close()
    video.close()
    return path


def shown(path) -> list[np.ndarray]:
    if path.suffix == ".mp4":
        return [image for _, image in frames(path)]
    with Image.open(path) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


@pytest.mark.parametrize("size", [(64, 48), (61, 47)])
@pytest.mark.parametrize("ending", CODECS)
def test_videos_read_back(tmp_path, ending, size):
    width, height = size
    pictures = [ramp(*size, i) for i in range(7)]
    path = written(tmp_path / f"a b%d{ending}", pictures)
    assert list(tmp_path.iterdir()) == [path]
    found = shown(path)
    wanted = (height + height % 2, width + width % 2) if ending == ".mp4" else (height, width)
    assert len(found) == 7 and {f.shape for f in found} == {(*wanted, 3)}
    for a, b in zip(found, pictures):
        # Of 255: GIF's 256 colours, halved chroma.
        assert np.abs(a[:height, :width].astype(int) - b).mean() < 8
    if ending == ".mp4" and width % 2:  # the last column again
        assert np.abs(found[3][:height, -1].astype(int) - found[3][:height, -2]).mean() < 6


def test_a_video_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    words = "file/a.mp4: cannot be written: .*/file is a file, not a folder"
    refuses(words, VideoWriter, tmp_path / "file/a.mp4", 64, 48, 30)
    (tmp_path / "folder.mp4").mkdir()
    video = VideoWriter(tmp_path / "folder.mp4", 64, 48, 30)
    video.write(ramp(64, 48, 0))
    refuses("folder.mp4: cannot be written: Is a directory", video.close)
    with pytest.raises(ValueError, match="is \\(48, 64, 3\\) uint8"):
        VideoWriter(tmp_path / "a.gif", 64, 48, 30).write(np.zeros((47, 64, 3), np.uint8))
    with pytest.raises(UserError, match="a.mp4: cannot be written: "):
        VideoWriter(tmp_path / "a.mp4", 0, 0, 30).write(np.zeros((0, 0, 3), np.uint8))
    fail = Mock(side_effect=ValueError("no encoder\nmore"))
    monkeypatch.setitem(CODECS, ".mp4", module.Codec(fail, CODECS[".mp4"].write))
    refuses("a.mp4: cannot be written: no encoder$", VideoWriter, tmp_path / "a.mp4", 64, 48, 30)
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".part" and ".gif" not in p.name]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ending", CODECS)
def test_a_full_disk_is_one_line(tmp_path, ending, monkeypatch):
    """The disk is full on the way or at the end; nothing is tried again."""
    (tmp_path / "full").symlink_to("/dev/full")
    monkeypatch.setattr(module, "replacing", lambda path, durable: nullcontext(tmp_path / "full"))
    video = VideoWriter(tmp_path / f"a{ending}", 320, 240, 30)
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    with pytest.raises(UserError, match=f"a{ending}: cannot be written: No space left on device$"):
        for _ in range(20):
            video.write(noise)
        video.close()
    video.close()
    del video
    gc.collect()


@pytest.mark.parametrize("turn", [90, 180, -90])
def test_a_video_of_a_phone_held_upright_is_turned(tmp_path, turn):
    """As phones do it: the pixels lie, and the file says how to show them."""
    source = written(tmp_path / "a.mp4", [ramp(64, 48, 3)])
    data = bytearray(source.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # the matrix of the track, 3x3 of 16.16 and 2.30
    c, s = round(np.cos(np.radians(turn))), round(np.sin(np.radians(turn)))
    matrix = np.array([c, s, 0, -s, c, 0, 0, 0, 1 << 14], ">i4") << np.array(16, ">i4")
    data[at : at + 36] = matrix.astype(">i4").tobytes()
    (tmp_path / "b.mp4").write_bytes(data)
    ((_, lying),), ((_, upright),) = list(frames(source)), list(frames(tmp_path / "b.mp4"))
    # The matrix turns clockwise.
    np.testing.assert_array_equal(upright, np.rot90(lying, -turn // 90))
