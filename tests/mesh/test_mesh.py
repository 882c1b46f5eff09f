"""Distance fields against spheres; closed surfaces; colours, textures and files; the command."""

import json
import struct

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree

from hardsplat.cli import main
from hardsplat.io.formats.frames import UPS, axis, upright
from hardsplat.io.meshes import MESHES, Colored, Textured, write_mesh
from hardsplat.mesh import build
from hardsplat.mesh.build import Fusion, surface_of
from hardsplat.mesh.field import BAND, BLOCK, OFFSETS, Field, blocks_near
from hardsplat.mesh.surface import (
    areas,
    closed_field,
    extract,
    is_closed,
    largest,
    mended,
    simplified,
)
from hardsplat.mesh.texture import baked, owners, unwrapped
from hardsplat.mesh.views import DepthView, bilinear, colors_at, rays_of
from hardsplat.model.camera import Camera
from tests.helpers.drawing import fresh_seed
from tests.helpers.scenes import around
from tests.helpers.splat_files import points_of, result_of
from tests.helpers.tables import refuses

VOXEL = 0.05


def paint(points: np.ndarray) -> np.ndarray:
    """(N, 3) in 0..1, smooth."""
    return 0.5 + 0.4 * np.sin(points * [2.0, 3.0, 1.5])


def ball_view(camera: Camera, middle=(0.0, 0.0, 0.0), radius: float = 1.0) -> DepthView:
    """Exact depth and colour of a painted ball."""
    rays, origin = rays_of(camera)
    away = origin - np.asarray(middle)
    a, b, c = (rays**2).sum(-1), rays @ away, away @ away - radius**2
    root = b * b - a * c
    depth = np.where(root > 0, (-b - np.sqrt(np.maximum(root, 0))) / a, 0)
    color = paint((origin + depth[..., None] * rays).reshape(-1, 3)).reshape(*depth.shape, 3)
    return DepthView(camera, depth.astype(np.float32), np.rint(255 * color).astype(np.uint8))


@pytest.fixture(scope="module")
def views() -> list[DepthView]:
    return [ball_view(camera) for camera in around(20, 120, 120)]


def test_distances_are_those_of_a_plain_loop(views):
    """One voxel after the other, in float64."""
    near = blocks_near(views, VOXEL, 10)
    field = Field(VOXEL, near)
    field.fuse(views)
    rng = np.random.default_rng(seed := fresh_seed())
    for block, voxel in zip(rng.integers(len(near), size=60), rng.integers(BLOCK**3, size=60)):
        at, found = (BLOCK * near[block] + OFFSETS[voxel]) * VOXEL, []
        for camera, depth, _ in views:
            x, y, z = camera.K @ (camera.w2c[:3, :3] @ at + camera.w2c[:3, 3])
            column, row = int(np.floor(x / z)), int(np.floor(y / z))
            if z > 0 and 0 <= column < camera.width and 0 <= row < camera.height:
                seen = depth[row, column]
                distance = (seen - z) / (BAND * VOXEL) if seen else 1.0
                found += [min(distance, 1.0)] if distance > -1 else []
        # a pixel's border may round either way in float32
        assert abs(int(field.views[block, voxel]) - len(found)) <= 1, seed
        if field.views[block, voxel] == len(found) > 0:
            weights = np.where(np.array(found) < 1, 1, 0.3)
            assert abs(field.value[block, voxel] - np.average(found, weights=weights)) < 0.15, seed
    exact = np.linalg.norm((BLOCK * near[:, None] + OFFSETS) * VOXEL, axis=2) - 1
    seen = (np.abs(exact) > 0.5 * VOXEL) & (exact > -BAND / 2 * VOXEL) & (field.views > 3)
    assert ((field.value > 0) == (exact > 0))[seen].mean() > 0.999 and seen.sum() > 10_000


def test_a_ball_is_a_ball(views):
    points, faces, voxel, left_out = surface_of(views, Fusion(VOXEL))
    radii = np.linalg.norm(points, axis=1)
    assert abs(radii.mean() - 1) < 0.2 * VOXEL and radii.std() < 0.2 * VOXEL  # measured 0.08, 0.1
    made = trimesh.Trimesh(points, faces, process=False)
    assert made.is_watertight and is_closed(faces) and made.is_winding_consistent
    assert 0.95 < made.volume / (4 / 3 * np.pi) < 1  # so triangles face outwards
    assert (voxel, left_out) == (VOXEL, 0)
    less, fewer = simplified(points, faces, 500)
    assert 300 < len(fewer) <= 500 and is_closed(fewer)
    assert abs(np.linalg.norm(less, axis=1).mean() - 1) < 0.5 * VOXEL


def test_depth_that_errs_to_the_back_leaves_no_hole(views):
    """The fault: half of the views carved what the others saw."""
    erring = [v._replace(depth=np.where(v.depth > 0, v.depth + 0.5, 0)) for v in views[::2]]
    points = surface_of([*views[1::2], *erring], Fusion(VOXEL))[0]
    radii = np.linalg.norm(points, axis=1, keepdims=True)
    there = cKDTree((points / radii)[radii[:, 0] > 1 - 2 * VOXEL])
    everywhere = trimesh.creation.icosphere(4).vertices
    away = there.query(everywhere)[0]
    assert (away < 1.5 * VOXEL).mean() > 0.85  # measured 0.93, without the weight 0.16


@pytest.mark.parametrize("fused, least", [(1, 1), (2, 2), (3, 3), (40, 3)])
def test_voxels_are_known_that_three_views_saw(fused, least):
    """Fewer where there are no more."""
    field = Field(VOXEL, np.zeros((2, 3), np.int64))
    field.fused = fused
    field.views[1] = np.arange(BLOCK**3) % 6
    assert (field.known(np.array([1, 0])) == (field.views[[1, 0]] >= least)).all()
    assert field.known(np.array([1])).any() and not field.known(np.array([0])).any()


def test_cells_without_a_known_corner_have_no_surface(views):
    field = Field(VOXEL, blocks_near(views, VOXEL, 10))
    field.fuse(views)
    above = (field.blocks[:, None] * BLOCK + OFFSETS)[..., 2] > 0
    field.views[~above] = 0
    points, faces = extract(field)
    assert points[:, 2].min() >= VOXEL and not is_closed(faces)
    whole = Field(VOXEL, field.blocks)
    whole.fuse(views)
    assert 0.4 < len(faces) / len(extract(whole)[1]) < 0.5


def together(*parts: tuple[trimesh.Trimesh, float]) -> tuple[np.ndarray, np.ndarray]:
    """Points and faces of meshes, each so much higher."""
    for mesh, height in parts:
        mesh.apply_translation([0, 0, height])
    whole = trimesh.util.concatenate([mesh for mesh, _ in parts])
    return np.asarray(whole.vertices), np.asarray(whole.faces)


def sphere(levels: int, radius: float = 1.0) -> trimesh.Trimesh:
    return trimesh.creation.icosphere(levels, radius=radius)


def test_the_largest_pieces_stay():
    points, faces = together((sphere(3), 0), (sphere(1, 0.05), 3), (sphere(1, 0.05), -3))
    assert [len(largest(points, faces, n)[1]) for n in (None, 1, 2)] == [1280, 1280, 1360]
    assert [largest(points, faces, n)[2] for n in (None, 1, 2)] == [2, 2, 1]
    assert np.allclose(areas(*largest(points, faces)[:2]).sum(), sphere(3).area)


def test_what_lies_behind_the_scene_is_left_out():
    points, faces = together((sphere(3), 0), (sphere(1, 0.4), 1.5), (sphere(1, 0.4), 9))
    places = np.array([camera.position for camera in around(20, 8, 8)])
    assert len(largest(points, faces)[1]) == 1280 + 80 + 80
    kept, left, out = largest(points, faces, places=places)
    assert len(left) == 1280 + 80 and kept[:, 2].max() < 2 and out == 1
    assert len(largest(points, faces, 3, places)[1]) == 1280 + 80 + 80  # as was asked for


def test_the_largest_piece_stays_however_far_a_tail_of_it_reaches():
    tail = sphere(3)
    tail.vertices += (tail.vertices[:, 2:] > 0.93) * [0, 0, 1]  # 3 % of them
    for parts in ([(tail, 0)], [(tail, 0), (sphere(1, 0.4), 9)]):
        points, faces = together(*parts)
        kept, left, _ = largest(points, faces, places=sphere(3).vertices)
        assert len(left) == 1280 and kept[:, 2].max() < 3


def test_surfaces_are_mended():
    """Holes, some of which touch, doubled and turned triangles; all at once."""
    ball = trimesh.creation.icosphere(4)
    rng = np.random.default_rng(seed := fresh_seed())
    lost = rng.permutation(len(ball.faces))[:100]
    hub = np.flatnonzero((ball.faces == ball.faces[lost[0], 0]).any(axis=1))[[0, 2]]
    faces = np.delete(ball.faces, np.concatenate([lost, hub]), axis=0)
    faces = np.concatenate([faces, faces[:5], faces[7:9, ::-1]])
    assert not is_closed(faces), seed
    points, closed = mended(ball.vertices, faces)
    made = trimesh.Trimesh(points, closed, process=False)
    assert is_closed(closed) and made.is_watertight and made.is_winding_consistent, seed
    assert abs(made.volume / ball.volume - 1) < 0.01, seed  # measured 0.001
    assert mended(ball.vertices, ball.faces)[1] is ball.faces


def test_what_no_camera_saw_is_solid(views):
    """Seen from above alone, a ball is open below; closed, it stands in what is hidden."""
    above = [view for view in views if view.camera.position[2] > 1.5]
    near = blocks_near(above, VOXEL, 10)
    field = Field(VOXEL, near)
    field.fuse(above)
    assert not is_closed(extract(field)[1])
    points, faces, _ = largest(*extract(closed_field(above, VOXEL, near)), 1)
    made = trimesh.Trimesh(points, faces, process=False)
    assert is_closed(faces) and made.is_watertight and made.volume > 4 / 3 * np.pi
    assert np.linalg.norm(points[points[:, 2] > 0.5], axis=1).max() < 1 + VOXEL
    # at 60 places of the box: solid where no camera sees through
    rng = np.random.default_rng(seed := fresh_seed())
    places = rng.uniform(points.min(axis=0), points.max(axis=0), (60, 3))
    free = np.zeros(60, bool)
    for camera, depth, _ in above:
        which, (x, y), z = camera.pixels(places)
        free[which[(depth[y, x] == 0) | (depth[y, x] > z)]] = True
    away = cKDTree(points).query(places)[0] > 2 * VOXEL
    assert (np.round(windings(points, faces, places)) == ~free)[away].all(), seed


def windings(points: np.ndarray, faces: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(N,) turns of a surface around places (N, 3): solid angles (van Oosterom & Strackee 1983)."""
    a, b, c = points[faces.T][:, None] - places[:, None]
    la, lb, lc = (np.linalg.norm(v, axis=2) for v in (a, b, c))
    dots = [(p * q).sum(axis=2) for p, q in ((a, b), (b, c), (c, a))]
    below = la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb
    return 2 * np.arctan2((a * np.cross(b, c)).sum(axis=2), below).sum(axis=1) / (4 * np.pi)


def test_colours_are_of_the_nearest_views(views):
    rng = np.random.default_rng(seed := fresh_seed())
    points = rng.normal(size=(400, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = colors_at(points, points, views, 0.1)
    assert np.abs(found - paint(points)).mean() < 0.02, seed  # measured 0.005
    # from one side: the others are as their nearest seen neighbours
    one = colors_at(points, points, views[:1], 0.1)
    assert np.isfinite(one).all() and one.std() > 0.01
    nothing = colors_at(points + 100, points, views, 0.1)
    assert (nothing == 0.5).all()
    image = rng.integers(0, 255, (4, 5, 3)).astype(np.uint8)
    found = bilinear(image, np.array([0.5, 4.9]), np.array([1.5, 3.9]))
    assert (found == image[[1, 3], [0, 4]]).all()
    assert np.allclose(bilinear(image, np.array([1.0]), np.array([0.5])), image[0, :2].mean(axis=0))


def test_texels_know_their_triangles():
    """Against every texel tested with every triangle."""
    rng = np.random.default_rng(seed := fresh_seed())
    uvs, faces, side = rng.uniform(0, 1, (12, 2)), np.arange(12).reshape(4, 3), 32
    found = owners(uvs, faces, side)
    y, x = np.mgrid[:side, :side] + 0.5
    inside = []
    for a, b, c in uvs[faces] * side:
        side_of = lambda p, q: (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])
        cross = [side_of(a, b), side_of(b, c), side_of(c, a)]
        inside.append((np.min(cross, axis=0) >= 0) | (np.max(cross, axis=0) <= 0))
    inside = np.array(inside)
    held = inside.any(axis=0)
    rows, columns = np.nonzero(held)
    assert (found[held] >= 0).all() and inside[found[held], rows, columns].all(), seed


def test_a_texture_shows_the_paint(views):
    points, faces, voxel, _ = surface_of(views, Fusion(VOXEL, triangles=2000))
    side = 256
    cut = unwrapped(points, faces, side)
    corners = points[cut.vertices[cut.faces]]
    assert np.allclose(corners.mean(axis=(0, 1)), points[faces].mean((0, 1)))
    assert cut.uvs.min() >= 0 and cut.uvs.max() <= 1 and len(cut.faces) == len(faces)
    texture = baked(cut, points, side, views, BAND * voxel)
    middles, at = corners.mean(axis=1), cut.uvs[cut.faces].mean(axis=1)
    shown = bilinear(texture, *(side * at).T)
    assert np.abs(shown - paint(middles)).mean() < 0.02  # measured 0.007


@pytest.mark.parametrize("suffix", MESHES)
@pytest.mark.parametrize("textured", (False, True))
def test_files_open_in_trimesh(tmp_path, suffix, textured, caplog, recwarn):
    ball = trimesh.creation.icosphere(2)
    points, faces = np.asarray(ball.vertices), np.asarray(ball.faces)
    mesh = Colored(points, faces, colors=paint(points))
    if textured:
        cut = Textured(np.arange(len(points)), paint(points)[:, :2], faces)
        mesh = Colored(points, faces, None, cut, np.linspace(0, 1, 48 * 48 * 3).reshape(48, 48, 3))
    path = tmp_path / f"my ball{suffix}"
    size = write_mesh(path, mesh)
    assert size == sum(file.stat().st_size for file in tmp_path.iterdir())
    read = trimesh.load(path, process=False, force="mesh")
    assert not caplog.records and not list(recwarn)
    assert len(read.faces) == len(faces) and read.volume == pytest.approx(ball.volume, rel=1e-5)
    if suffix == ".stl" or (suffix == ".ply" and textured):
        return
    if textured:
        assert np.allclose(read.visual.uv, [0, 1] + cut.uvs * [1, -1], atol=1e-5)
        material = read.visual.material
        image = material.baseColorTexture if suffix == ".glb" else material.image
        assert np.abs(np.asarray(image)[..., :3] - np.rint(255 * mesh.texture)).max() <= 1
        return
    colors = paint(points)
    if suffix == ".glb":  # linear light there
        colors = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    assert np.abs(read.visual.vertex_colors[:, :3] / 255 - colors).max() < 0.005


@pytest.fixture
def result(scene, tmp_path, on_device):
    return result_of(tmp_path / "result", points_of(scene), data_dir=scene)


def test_the_command(result, capsys):
    assert main(["mesh", str(result), "--quiet", "--triangles", "3000"]) == 0
    said = capsys.readouterr().out
    assert "triangles, open" in said
    assert said.endswith("open it in Blender: File > Import > glTF 2.0\n")
    path = result / "mesh.glb"
    length, kind = struct.unpack_from("<II", path.read_bytes(), 12)
    gltf = json.loads(path.read_bytes()[20 : 20 + length])
    assert kind == 0x4E4F534A
    assert gltf["materials"][0]["pbrMetallicRoughness"]["metallicFactor"] == 0
    made = trimesh.load(path, force="mesh")
    assert 100 < len(made.faces) <= 3000
    floor = made.area_faces @ made.face_normals  # walls around it face one another
    assert floor[1] > 0.8 * np.linalg.norm(floor)
    words = ["--watertight", "--up=none", "--voxel", "0.3", "--quiet"]
    assert main(["mesh", str(result), str(result / "closed.ply"), *words]) == 0
    assert "closed, " in capsys.readouterr().out
    closed = trimesh.load(result / "closed.ply")
    assert closed.is_watertight and closed.visual.vertex_colors[:, :3].std() > 5
    assert closed.bounds[1, 2] < 10 < closed.bounds[1, 0]  # as in the scene, whose sky is low


def test_cameras_know_which_way_is_up():
    """The world's axis next to it is taken, where that is near."""
    target = np.array([0.0, -1, 0])
    rng = np.random.default_rng(0)
    for up in (*map(axis, UPS), *rng.normal(size=(20, 3))):
        up = up / np.linalg.norm(up)
        turn = upright(up)
        assert np.allclose(turn @ up, target) and np.allclose(turn @ turn.T, np.eye(3))
        assert np.linalg.det(turn) == pytest.approx(1)
    for degrees, wanted in ((8, [0, 0, 1]), (12, None)):
        angle = np.radians(degrees)
        down = -np.array([np.sin(angle), 0, np.cos(angle)])
        w2c = np.eye(4)
        w2c[:3, :3] = np.cross(down, [0, 1, 0]), down, [0, 1, 0]
        camera = Camera(w2c, np.array([[9.0, 0, 4], [0, 9, 4], [0, 0, 1]]), 8, 8)
        assert np.allclose(build._up_of([camera]), -down if wanted is None else wanted)


BAD = """
    --voxel 0 | --voxel 0: expected a number of 1e-12
    --voxel small | --voxel small: expected a number or auto
    --voxel 1e-5 | a pixel covers
    --triangles 1 | --triangles 1: expected a number of 4
    --pieces 0 | --pieces 0: expected a number of 1
    --texture-size 7 | --texture-size 7: expected a number of 256 to 8192 or 0
    mesh.stl --texture-size 512 | --texture-size 512: .stl has no texture; leave it out
    --max-depth 1e-9 | no view sees a surface nearer than
    --depth mean | --depth: expected one of median, surface, got 'mean'
    mesh.fbx | mesh.fbx: a mesh ends in .glb, .obj, .ply, .stl
    --data-dir nowhere | nowhere
"""


@pytest.mark.parametrize("line", BAD.strip().splitlines())
def test_bad_input(result, error_of, line):
    words, message = (part.strip() for part in line.split(" | "))
    assert message in error_of("mesh", result, *words.split(), "--quiet")
    assert not list(result.glob("mesh.*"))


def test_meshes_that_are_none(result, error_of, monkeypatch, views):
    (result / "mesh.glb").touch()
    assert "exists; add --overwrite" in error_of("mesh", result)
    (photo := result.parent / "a_photo.png").touch()
    obj = photo.with_name("a photo.obj")
    refuses(r"a_photo\.png: exists; add --overwrite", build.mesh, result, obj)
    words = "is what the mesh is made of"
    refuses(words, build.mesh, result, result / "splats.ply", overwrite=True)
    assert "not found" in error_of("mesh", result / "nothing")
    splats = result.parent / "alone.ply"
    (result / "splats.ply").rename(splats)
    assert "add --data-dir SCENE" in error_of("mesh", splats)
    monkeypatch.setitem(__import__("sys").modules, "xatlas", None)
    assert "pip install 'hardsplat[mesh]'" in error_of("mesh", splats)
    clear = [view._replace(depth=np.zeros_like(view.depth)) for view in views]
    refuses("light passes everywhere", surface_of, clear, Fusion())
    monkeypatch.setattr(build, "MOST_BYTES", 100_000)
    refuses("--voxel 0.05: takes 0.0 GiB", surface_of, views, Fusion(VOXEL))
    assert surface_of(views, Fusion())[2] > 0.1  # automatic ones grow
