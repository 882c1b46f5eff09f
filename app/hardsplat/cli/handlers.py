"""What commands do with their flags: check them, and call a function that is imported only then."""

import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import name_position, settings, show_log, values_of
from hardsplat.settings.presets import read_settings
from hardsplat.tables.layouts import A_SCENE


def view(flags):
    show_log(flags)
    target, address = flags.pop("target"), flags.pop("serve", None)
    if address is not None and "max_splats" in flags:
        raise UserError("--max-splats: is for windows; --serve shows all splats")
    if address is None:
        from hardsplat.view.show import view

        budget = {name: flags.pop(name) for name in ("max_splats",) if name in flags}
        view(target, **budget, **settings(flags))
    else:
        from hardsplat.serve.editing import serve

        serve(target, address, **settings(flags))


def imported(place: str):
    """The function or class `place`, "module:name" in this package."""
    module, name = place.split(":")
    return getattr(import_module(f"hardsplat.{module}"), name)


def window_of(place: str, what: str, **given):
    """The window of --view; None where there can be none, with a note that `what` continues."""
    try:
        return imported(place)(**given)
    except UserError as error:
        print(f"note: {error}; {what} continues without --view", file=sys.stderr)


def _call(place: str, *positions: str, opens: str = ""):
    """A handler that calls the function `place` with the flags named `positions` in their order,
    None for missing ones, and the others by their names. opens: what --open shows, an attribute of
    what is returned."""

    def handle(flags):
        function, wanted = imported(place), flags.pop("open", False)
        show_log(flags)
        first = [flags.pop(each, None) for each in positions]
        done = function(*first, **flags)
        if wanted:
            from hardsplat.export.opening import open_file, open_folder

            path = getattr(done, opens)
            open_folder(path) if path.is_dir() else open_file(path)

    return handle


eval = _call("train:evaluate_run", "result")
compare = _call("study.compare:compare", "first", "second", "output")
export = _call("export.page:export", "result", "output", opens="path")
lod = _call("export.lod:lod", "result", "output", opens="folder")
mesh = _call("mesh.build:mesh", "result", "output", opens="path")


def render(flags):
    flags |= settings({n: flags[n] for n in ("data_factor", "rasterizer") if n in flags})
    from hardsplat.render.render import Framing, RenderStyle, render

    show_log(flags)
    render(flags.pop("model"), *_parts(flags, Framing, RenderStyle), **flags)


def clean(flags):
    from hardsplat.export.clean import clean

    show_log(flags)
    done = clean(flags.pop("result"), flags.pop("output", None), **flags)
    print(
        f"{done.path}: {done.removed:,} of {done.read:,} splats removed, {done.unseen:,} of them "
        f"no photograph shows; PSNR of training photographs {done.before:.2f} dB, "
        f"now {done.after:.2f}"
    )


def convert(flags):
    from hardsplat.export.convert import convert

    show_log(flags)
    done = convert(flags.pop("source"), target := flags.pop("target"), **flags)
    _print_converted(done, target)


def _print_converted(done, target):
    left_out = f" of {done.read:,}" if done.written < done.read else ""
    smaller, larger = sorted((done.size, done.size_before))
    ratio = f"{larger / smaller:.1f}"
    share = f"1/{ratio} of" if done.size == smaller else f"{ratio} times"
    share = "as large as" if ratio == "1.0" else share
    each = f"{done.size / max(done.written, 1):.1f} bytes each"
    size = f"{done.size / 1e6:.2f} MB, {share} what was read, in {done.seconds:.1f} s"
    print(f"{target}: {done.written:,}{left_out} splats in {each}, {size}")
    if done.cost and not done.cost.nothing:
        print(f"{target}: {done.cost}")


def edit(flags):
    from hardsplat.export.edit import edit_splats

    show_log(flags)
    done, target, steps = edit_splats(flags.pop("source"), **flags)
    _print_converted(done, target)
    print(f"steps: {steps}")


def bench(flags):
    from hardsplat.study.bench.axes import AXES

    axes = {name: values_of(name, flags.pop(name)) for name in AXES if name in flags}
    if "rasterizer" in axes:
        flags["rasterizer"] = axes.pop("rasterizer")
    flags |= settings({n: flags[n] for n in ("data_factor",) if n in flags})
    from hardsplat.study.bench.bench import bench

    show_log(flags)
    bench(flags.pop("model"), axes, **flags)


def fit(flags):
    from hardsplat.fit.config import FIT_FIELDS, FitConfig

    image, with_window = flags.pop("image"), flags.pop("view", False)
    show_log(dict(flags))
    config = FitConfig(**settings(flags, FIT_FIELDS))
    from hardsplat.fit.fitter import fit

    preview = window_of("view.fit_preview:FitPreview", "the fit") if with_window else None
    fit(image, config, preview=preview)


def fit_mesh(flags):
    from hardsplat.fitmesh.config import MESH_FIELDS, MeshConfig

    saved = flags.pop("config", None)
    name_position(flags, "scene", "data_dir", "the scene is")
    names = {name: name for name in MESH_FIELDS}
    read = read_settings(Path(saved).expanduser(), MESH_FIELDS, names) if saved else {}
    values = read | settings(flags, MESH_FIELDS)
    if values.get("data_dir") is None:
        raise UserError(f"no scene given: hardsplat fit-mesh SCENE, {A_SCENE}, and silhouettes")
    data_dir = values["data_dir"] = values["data_dir"].absolute()
    values.setdefault("result_dir", Path("results") / f"{data_dir.name}_mesh")
    config = MeshConfig(**values)
    from hardsplat.fitmesh.fit import MeshFitter

    show_log({"quiet": config.quiet})
    MeshFitter(config).run()


def sfm(flags):
    from hardsplat.sfm.job.config import SFM_FIELDS, SfmConfig

    name_position(flags, "input", "data", "the photographs are")
    config = SfmConfig(**settings(flags, SFM_FIELDS))
    from hardsplat.sfm.run import sfm

    sfm(config)


def doctor(flags):
    from hardsplat.study.doctor import report

    text, exit_code = report(**flags, pipelines=True)
    print(text)
    return exit_code


def _parts(flags: dict, *classes: type) -> list:
    """A dataclass each, of the flags that are its fields, which are taken out."""
    return [c(**{f.name: flags.pop(f.name) for f in fields(c) if f.name in flags}) for c in classes]
