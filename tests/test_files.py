"""Files that take the place of others."""

import pytest

from hardsplat.files import replacing


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    for text in ("one", "two"):
        before = path.read_text() if path.exists() else None
        with replacing(path) as partial:
            partial.write_text(text)
            assert (path.read_text() if path.exists() else None) == before
        assert path.read_text() == text
    with pytest.raises(KeyboardInterrupt), replacing(path) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "two" and list(path.parent.iterdir()) == [path]


def test_a_file_where_the_folder_would_be(tmp_path):
    (tmp_path / "folder").touch()
    with pytest.raises(OSError), replacing(tmp_path / "folder" / "file"):
        raise AssertionError("not reached")
