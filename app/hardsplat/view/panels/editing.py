"""What edits splats: tools, selection, places, files."""

from __future__ import annotations

from slimgui import imgui

from hardsplat.edit.editor import MARKS
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui
from hardsplat.view.splats.editing import LARGEST, SMALLEST, TOOLS, EditInputs

NOTES = {
    "look": "Drags turn around the scene.",
    "mark": "A click marks a point, as A, B, C.",
    "brush": "Drags select what is under the brush; with shift they move the camera.",
    "rectangle": "A drag selects what lies in the rectangle.",
}
ACTIONS = {
    "Box A B": "box",
    "Sphere A B": "sphere",
    "Delete": "delete",
    "Keep only": "keep",
    "Undo": "undo",
    "Make A B C the floor": "floor",
}


def draw(ui: Ui) -> None:
    i = ui.inputs
    if not isinstance(i, EditInputs):
        return
    if pressed := widgets.segments("tool", i.tool, TOOLS, columns=4, small=True):
        i.use(pressed)
    widgets.faint(NOTES[i.tool])
    if i.tool == "brush":
        radius = widgets.slider("radius", i.radius, SMALLEST, LARGEST, "{:.0f} px", log=True)
        i.radius = i.radius if radius is None else radius
    _selection(i)
    _places(i)
    _files(i)


def _selection(i: EditInputs) -> None:
    editor = i.editor
    widgets.heading("Selection")
    two = len(editor.marks) >= 2
    none = ["Box A B", "Sphere A B"] * (not two)
    _act(i, widgets.buttons("Box A B", "Sphere A B", disabled=none))
    if not two:
        widgets.faint("A box or a sphere takes two marks.")
    none = ["Delete", "Keep only"] * (not editor.selecting)
    colors = {"Delete": style.RED}
    _act(i, widgets.buttons("Delete", "Keep only", colors=colors, disabled=none))
    idle = not editor.selecting and not editor.steps
    _act(i, widgets.buttons("Undo", disabled=["Undo"] * idle))


def _places(i: EditInputs) -> None:
    editor = i.editor
    widgets.heading("Marks")
    for name, place in zip(MARKS, editor.marks):
        imgui.text_colored(style.ORANGE, name)
        imgui.same_line(widgets.em(1.5))
        imgui.text("   ".join(f"{x:.4g}" for x in place))
    length = editor.length
    if length is None:
        widgets.faint("Two marks measure a length; three lie on a floor.")
    else:
        widgets.label("A to B")
        changed, wanted = imgui.input_float(
            "##length", length, format="%.4g", flags=imgui.InputTextFlags.ENTER_RETURNS_TRUE
        )
        widgets.hint("Enter another length, and everything is scaled to it")
        if changed and wanted > 0:
            i.measure(wanted)
    none = ["Make A B C the floor"] * (len(editor.marks) < 3)
    _act(i, widgets.buttons("Make A B C the floor", disabled=none))


def _files(i: EditInputs) -> None:
    editor = i.editor
    widgets.heading("Camera path and files")
    key = f"Key frame {editor.keyframes + 1}"
    nothing = not editor.steps and not editor.keyframes
    colors, none = {"Save": style.ACCENT}, ["Save"] * nothing
    pressed = widgets.buttons(key, "Save", colors=colors, disabled=none)
    if pressed:
        i.save() if pressed == "Save" else i.keyframe()
    widgets.label("save as")
    _, i.name = imgui.input_text("##name", i.name)
    widgets.faint("The splats as they are now, the steps of the edit, and the path of key frames.")


def _act(i: EditInputs, pressed: str) -> None:
    if pressed:
        i.act(ACTIONS[pressed])
