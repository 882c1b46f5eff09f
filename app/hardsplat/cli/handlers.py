"""What commands do with their flags: check them, and call a function that is imported only then."""

import sys
from dataclasses import fields
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


def eval(flags):
    from hardsplat.train import evaluate_run

    show_log(flags)
    evaluate_run(flags.pop("result"), **flags)


def compare(flags):
    from hardsplat.study.compare import compare

    show_log(flags)
    compare(flags.pop("first"), flags.pop("second"), flags.pop("output", None), **flags)


def render(flags):
    flags |= settings({n: flags[n] for n in ("data_factor", "rasterizer") if n in flags})
    from hardsplat.render.render import Framing, RenderStyle, render

    show_log(flags)
    render(flags.pop("model"), *_parts(flags, Framing, RenderStyle), **flags)


def export(flags):
    from hardsplat.export.page import export

    show_log(flags)
    opens = flags.pop("open", False)
    written = export(flags.pop("result"), flags.pop("output", None), **flags)
    if opens:
        from hardsplat.export.opening import open_file

        open_file(written.path)


def lod(flags):
    from hardsplat.export.lod import lod

    show_log(flags)
    flags.pop("device", None)  # of the command line as a whole; no GPU is used here
    opens = flags.pop("open", False)
    made = lod(flags.pop("result"), flags.pop("output", None), **flags)
    if opens:
        from hardsplat.export.opening import open_folder

        open_folder(made.folder)


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
    share = f"{done.size / done.size_before:.1f} times"
    if done.size <= done.size_before:
        share = f"1/{done.size_before / done.size:.1f} of"
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

    fit(image, config, preview=_fit_window() if with_window else None)


def _fit_window():
    """The window of --view; None, and why, where there can be none."""
    try:
        from hardsplat.view.fit_preview import FitPreview

        return FitPreview()
    except UserError as error:
        print(f"note: {error}; the fit continues without --view", file=sys.stderr)


def mesh(flags):
    from hardsplat.mesh.build import mesh

    show_log(flags)
    opens = flags.pop("open", False)
    made = mesh(flags.pop("result"), flags.pop("output", None), **flags)
    if opens:
        from hardsplat.export.opening import open_file

        open_file(made.path)


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
    from hardsplat.fitmesh.fit import fit_mesh as fit

    show_log({"quiet": config.quiet})
    fit(config)


def sfm(flags):
    from hardsplat.sfm.job.config import SFM_FIELDS, SfmConfig

    flags.pop("device", None)  # of the command line as a whole; no GPU is used here
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
