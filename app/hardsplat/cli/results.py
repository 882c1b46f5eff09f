"""The commands that take a result: help, flags, and what does each."""

from hardsplat.cli import handlers
from hardsplat.cli.flags import Command
from hardsplat.io.formats import readable, writable
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import PICTURES

RESULT_COMMANDS = {
    "view": Command(
        "look at a result, at splats, or at a scene, in a window or in browsers",
        """
target RESULT|SPLATS|SCENE: result folder, a file of splats, see convert, or a scene's first splats
--serve [[HOST:]PORT]: show it in browsers, until Ctrl-C; without HOST only to this machine
--data-dir PATH: scene whose cameras and photographs are shown (default: the one trained on)
data_factor: show photographs this many times smaller (default: as trained, else 1)
--max-splats N: most splats in a window, of levels of detail and of tiles (default: what fits)
format
device
verbose
""",
        handlers.view,
        remedies={
            "pixels": "raise --data-factor",
            "splats": "show levels of detail, see hardsplat lod --help",
        },
    ),
    "eval": Command(
        "measure PSNR and SSIM of a result on the held-out views",
        """
result RESULT: result folder of a training, or a file of splats, see convert
--data-dir PATH: scene to compare with (default: the one trained on)
--result-dir PATH: folder for the measurements (default: eval next to RESULT)
--pose-opt: measure also from refined poses of the held-out views
--lpips {alex,vgg,vgg-3dgs}: LPIPS too: AlexNet as gsplat, VGG, or as 3DGS has it (extra lpips)
device
verbose
""",
        handlers.eval,
        remedies={"pixels": "raise --data-factor"},
    ),
    "compare": Command(
        "measure two results from the same views, and write a page that shows both",
        """
first A: result folder of a training, or a file of splats, see convert
second B: the same, to compare with it
output [PAGE.html]: the file to write (default: compare.html next to B)
--data-dir PATH: scene with the views (default: the one trained on)
--lpips {alex,vgg,vgg-3dgs}: measure LPIPS too, see eval
--overwrite: replace PAGE.html where it exists
device
verbose
""",
        handlers.compare,
        remedies={"pixels": "raise --data-factor"},
    ),
    "render": Command(
        "draw stills or a video of a model",
        f"""
model RESULT|SPLATS: result folder of a training, or a file of splats, see convert
--path NAME|FILE.json: held-out, train, orbit, spiral, or a file of keyframes (default: orbit)
-o/--output PATH: video .mp4 .gif .webp, or a folder for PNG (default: next to the model)
--mode NAME...: one or more of {", ".join(PICTURES)} (default: image)
--data-dir PATH: scene whose cameras are used (default: the one trained on)
data_factor: cameras of photographs this many times smaller (default: as trained)
--frames N: frames of a path (default: 120; of keyframes by their times; all views)
--fps X: frames a second of a video (default: 30, or as the file of keyframes has it)
--width N: px (default: as the cameras have it, orbit and spiral at least 960, without cameras 1280;
    with --height alone in proportion)
--height N: px (default: in proportion to the width, without cameras 720)
--fov X: vertical field of view of orbit and spiral, degrees (default: the first camera's, else 50)
--up {{x,y,z,-x,-y,-z}}: world axis that points up in orbit and spiral (default: cameras', else -y)
--background COLOUR: name or #rrggbb, or transparent for stills with alpha (default: as trained)
--sh-degree N: highest spherical-harmonic degree used (default: all that there are)
--format {{{",".join(FORMATS)}}}: render target (default: as trained; float32 for depth and count)
--[no-]legend: pictures of depth and count say what their colours stand for (default: yes)
--depth-raw: also save depth as float32 .npy, world units, whatever the --mode
--max-splats N: most splats of a picture, of levels of detail and of tiles (default: what fits)
rasterizer: see train (default: as trained)
--overwrite: replace pictures and videos that exist
device
quiet
verbose
--range LOW HIGH: depth or count with the first and last colour (default: from some frames)
""",
        handlers.render,
        remedies={
            "pixels": "lower --width and --height",
            "splats": "draw levels of detail, see hardsplat lod --help",
        },
    ),
    "export": Command(
        "write a page that shows a result in any browser",
        """
result RESULT|SPLATS: result folder of a training, or a file of splats, see convert
output [PAGE.html]: the file to write (default: page.html in the result, or named like a file)
--data-dir PATH: scene whose training cameras are in the list (default: the one trained on)
--max-splats N: most splats, the most important ones (default: 4194304)
--sh-degree N: highest degree of colour kept (default: with a page below 25 MB, 1 at least)
--min-opacity X: fainter splats are left out (default: 0.005)
--up {x,y,z,-x,-y,-z}: world axis that points up (default: the cameras', else -y)
--title TEXT: title of the page (default: the name of the scene)
--overwrite: replace PAGE.html where it exists
--open: open it in the browser
device
verbose
""",
        handlers.export,
    ),
    "lod": Command(
        "write levels of detail of a large scene, and a page that loads what its camera sees",
        """
result RESULT|SPLATS: result folder of a training, or a file of splats, see convert
output [FOLDER]: folder to write (default: lod in the result, or named like a file with _lod)
--data-dir PATH: scene whose training cameras are in the list (default: the one trained on)
--up {x,y,z,-x,-y,-z}: world axis that points up (default: the cameras', else -y)
--title TEXT: title of the page (default: the name of the scene)
--overwrite: replace FOLDER where an earlier run wrote it
--open: serve it to this machine and open it in the browser, until Ctrl-C
quiet
verbose
""",
        handlers.lod,
    ),
    "convert": Command(
        "write splats in another format, or fewer of them",
        f"""
source IN: result folder of a training, a checkpoint of one, or a file of splats, by its ending:
    {" ".join(readable())}
target OUT: file to write, by its ending: {" ".join(writable())}
--sh-degree N: highest spherical-harmonic degree kept (default: all that there are)
--up {{x,y,z,-x,-y,-z}}: world axis of IN that becomes the format's up (default: -y, not turned)
--min-opacity X: leave out splats below this opacity, 0 to 1 (default: 0)
--max-splats N: most splats: of a result folder those that contribute most to its training views, of
    a file those with the most opacity times area
--morton: order splats along a space-filling curve, as formats that compress always have it
--overwrite: replace OUT where it exists
device
quiet
--crop SHAPE NUMBER...: keep what lies in box X0 Y0 Z0 X1 Y1 Z1 or sphere X Y Z RADIUS, in the world
    of IN
""",
        handlers.convert,
    ),
    "edit": Command(
        "crop splats, turn them upright, scale them to metres, as a copy",
        """
source IN: result folder of a training, or a file of splats, see convert
-o/--output PATH: file of splats, by its ending (default: edited.ply next to IN); its steps are
    written beside it, as PATH.edit.json
--edits FILE.json: steps that come first, as --output, the window or a served page wrote them
--crop SHAPE NUMBER...: keep what lies in box X0 Y0 Z0 X1 Y1 Z1 or sphere X Y Z RADIUS; of several
    shapes what lies in all
--delete SHAPE NUMBER...: leave out what lies in one of these shapes
--up AXIS...: axis, x, y, z, -x, -y or -z, or direction X Y Z that is to point up
--floor X0 Y0 Z0 X1 Y1 Z1 X2 Y2 Z2: three points of the plane that becomes the floor, y = 0
--distance X0 Y0 Z0 X1 Y1 Z1 LENGTH: scale so that two points are so far apart, such as in metres
--scale X: make it this many times as large, about the origin
--move X Y Z: by so much, after all else
--overwrite: replace the output where it exists
device
quiet
verbose
""",
        handlers.edit,
    ),
    "clean": Command(
        "write a result without its floaters",
        """
result RESULT|SPLATS: result folder of a training, or a file of splats, see convert
-o/--output PATH: file of splats, by its ending (default: clean.ply in the result folder)
--data-dir PATH: scene whose photographs are asked (default: the one trained on)
--max-loss X: dB that training photographs may lose (default: 0.02)
--overwrite: replace the output where it exists
device
quiet
verbose
""",
        handlers.clean,
        remedies={"pixels": "raise --data-factor"},
    ),
    "mesh": Command(
        "make a triangle mesh of a result, for Blender, game engines and printers (extra mesh)",
        """
result RESULT|SPLATS: result folder of a training, or a file of splats, see convert
output [MESH]: file .glb .obj .ply .stl to write (default: mesh.glb, or named like a file)
--data-dir PATH: scene whose training cameras see the splats (default: the one trained on)
--depth {median,surface}: depth of a pixel; surface: the front of splats, for objects
    (default: median)
--voxel SIZE: side of a voxel, world units, or auto: what a pixel covers at the median depth
    (default: auto)
--max-depth X: leave out what is farther from cameras, world units (default: twice the median)
--triangles N: most triangles (default: 200000)
--pieces N: keep so many pieces, the largest (default: those with a hundredth of the largest's area)
--texture-size N: side of the texture, texels; 0: colours at vertices, as .ply has them (default:
    texels of half a voxel)
--watertight: a closed surface; what no camera saw is solid
--up {x,y,z,-x,-y,-z,none}: world axis that points up; the mesh is turned as its format has up, +y,
    in .ply and .stl +z; none: axes stay those of the result (default: what the cameras have up)
--overwrite: replace MESH where it exists
--open: open it in the program that the system has for it
device
quiet
verbose
""",
        handlers.mesh,
        remedies={"pixels": "train with a higher --data-factor"},
    ),
}
