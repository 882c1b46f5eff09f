"""The dialog that opens a file of splats or a folder: a list of what is there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from slimgui import imgui

from hardsplat.io.formats import readable, sog, streamed_sog
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui

TREES = streamed_sog.NAME, sog.META  # what else ends in .json holds no splats
TITLE = "Open splats, a result or a scene"


class Opening:
    """Lists a folder at a time."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._listed: list[Path] = []
        self._read: Path | None = None
        self._typed = ""

    def draw(self, ui: Ui) -> None:
        i = ui.inputs
        if i.browsing and not imgui.is_popup_open(TITLE):
            imgui.open_popup(TITLE)
            self._read, self._typed = None, ""
        display = imgui.get_io().display_size
        imgui.set_next_window_pos(
            (display[0] / 2, display[1] / 2), imgui.Cond.APPEARING, (0.5, 0.5)
        )
        size = min(widgets.em(44), 0.9 * display[0]), min(widgets.em(34), 0.9 * display[1])
        imgui.set_next_window_size(size, imgui.Cond.APPEARING)
        flags = imgui.WindowFlags.NO_RESIZE | imgui.WindowFlags.NO_COLLAPSE
        imgui.push_style_var(imgui.StyleVar.WINDOW_ROUNDING, widgets.em(0.55))
        shown, _ = imgui.begin_popup_modal(TITLE, flags=flags)
        imgui.pop_style_var()
        if shown:
            self._dialog(ui)
            if not i.browsing:
                imgui.close_current_popup()
            imgui.end_popup()

    def _dialog(self, ui: Ui) -> None:
        if self._read != self._folder:
            self._list()
        if imgui.is_window_appearing():
            imgui.set_keyboard_focus_here()
        imgui.set_next_item_width(-1)
        done = imgui.InputTextFlags.ENTER_RETURNS_TRUE
        entered, typed = imgui.input_text("##path", self._typed, done)
        if entered:
            self._choose(ui, Path(typed).expanduser())
        self._typed = typed
        foot = imgui.get_frame_height() + 2 * imgui.get_style().item_spacing[1]
        imgui.begin_child("listed", (0, -foot), imgui.ChildFlags.BORDERS)
        if imgui.selectable("..")[0]:
            self._folder = self._folder.parent
        for path in self._listed:
            folder = path.is_dir()
            imgui.push_style_color(imgui.Col.TEXT, style.TEXT if folder else style.ACCENT)
            picked = imgui.selectable(path.name + "/" * folder)[0]
            imgui.pop_style_color()
            if picked and folder:
                self._folder = path
            elif picked:
                self._choose(ui, path)
        imgui.end_child()
        chosen = widgets.buttons("Cancel", "Open", colors={"Open": style.ACCENT})
        if chosen == "Open":
            self._choose(ui, Path(self._typed).expanduser())
        elif chosen:
            ui.inputs.browsing = False

    def _list(self) -> None:
        """Folders, and files that hold splats."""
        self._read, self._typed, found = self._folder, str(self._folder), []
        with suppress(OSError):
            found = [path for path in self._folder.iterdir() if not path.name.startswith(".")]
        folders = sorted(path for path in found if path.is_dir())
        files = (path for path in found if path.suffix.lower() in readable())
        files = (path for path in files if path.suffix != ".json" or path.name in TREES)
        self._listed = folders + sorted(files)

    def _choose(self, ui: Ui, path: Path) -> None:
        ui.opened, ui.inputs.browsing = str(path), False
