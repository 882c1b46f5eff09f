"""What is shown of the splats, and how."""

from __future__ import annotations

from slimgui import imgui

from hardsplat.tables.keys import SHOWN
from hardsplat.view.gui import widgets
from hardsplat.view.gui.ui import LOUDER, Ui
from hardsplat.view.splats.inputs import Tuning

NAMES = dict(zip(SHOWN, SHOWN)) | {"median": "median depth", "alpha": "opacity"}
NOTES = {
    "image": "The splats in their colours.",
    "depth": "Expected depth along the camera's axis, world units.",
    "median": "Depth of the splat behind which less than half of the light is left.",
    "alpha": "How much of the background is covered.",
    "count": "How many splats cover a pixel.",
    "outlines": "The edge of every splat, where its opacity is 1/255.",
    "points": "Every splat as a dot.",
    "error": f"Difference from the photograph, {LOUDER:g} times as bright. At its cameras only.",
}
WIDEST, NARROWEST = 120.0, 10.0  # degrees of the field of view


def draw(ui: Ui) -> None:
    i = ui.inputs
    names = list(NAMES.values())
    if pressed := widgets.segments("picture", NAMES[i.picture], names, columns=2):
        i.show(next(picture for picture, name in NAMES.items() if name == pressed))
    widgets.faint(NOTES[i.picture])
    _splats(ui)
    _lens(ui)
    imgui.dummy((0, widgets.em(0.2)))
    if widgets.buttons("As trained") and i.tuning != Tuning():
        i.tuning = Tuning()
        i.touch()
    widgets.hint("Puts everything in this panel back")


def _splats(ui: Ui) -> None:
    i, t = ui.inputs, ui.inputs.tuning
    widgets.heading("Splats")
    scale = widgets.slider("size", t.splat_scale, 0.05, 2.0, "{:.2f} x")
    if scale is not None:
        i.tune(splat_scale=scale)
    if i.sh_degree:
        degree = i.sh_degree if t.degree is None else min(t.degree, i.sh_degree)
        chosen = widgets.slider("colour degree", degree, 0, i.sh_degree, "{:.0f}")
        if chosen is not None:
            i.tune(degree=None if round(chosen) == i.sh_degree else round(chosen))
        widgets.hint("Highest degree of spherical harmonics; 0: the same from everywhere")
    widgets.label("background")
    color = t.background or ui.look.background
    changed, color = imgui.color_edit3("##background", color)
    if changed:
        i.tune(background=color)


def _lens(ui: Ui) -> None:
    i, t = ui.inputs, ui.inputs.tuning
    widgets.heading("Camera")
    fov = widgets.slider("field of view", i.controls.fov, NARROWEST, WIDEST, "{:.0f}\u00b0")
    if fov is not None:
        i.controls.widen(fov)
        i.point = None
        i.touch()
    own, reach = ui.look.near_plane, i.controls.distance
    near = own if t.near_plane is None else t.near_plane
    high = max(2 * reach, 10 * own)
    if (chosen := widgets.slider("near plane", near, 1e-3, high, None, log=True)) is not None:
        i.tune(near_plane=chosen)
    widgets.hint("Splats that are nearer are left out: looks into closed rooms")
    speed = widgets.slider(
        "flying speed", i.controls.speed, 1e-3 * reach, 10 * reach, None, log=True
    )
    if speed is not None:
        i.controls.speed = speed
    if pressed := widgets.buttons("Level", "First view"):
        {"Level": i.level, "First view": i.home}[pressed]()
        i.touch()
