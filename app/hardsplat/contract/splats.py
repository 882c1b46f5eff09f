"""Splats: parameters, projections, and what stochastic gradients perturb."""

from hardsplat.contract.layout import subsystem

# Splats: the table of planes that hold what is trained, and what the projection makes of them.
MAX_PLANES = 64

SPLATS = subsystem(
    "splats",
    "trained planes by address, projected splats and their gradients",
    uses=("core",),
    constants={
        "float DILATION = 0.3": "px^2 added to the diagonal of the 2D covariance (Zwicker et al. "
        "2001 low-pass, value of Kerbl et al.)",
        "float FRUSTUM_SLACK = 0.3": "the Jacobian is evaluated at most this share of the half "
        "field of view outside the image",
        "float QUAD_MARGIN = 0.02": "px by which a splat's outline lies outside the ellipse: "
        "corners snap to 1/256 px, the fragment test decides",
        "uint GRADIENTS = 9": "numbers that a splat's fragments add up in the backward draw, see "
        "d_splats2d",
        "uint GRADIENT_STRIDE = 9": "floats from a splat's sums to the next one's",
        f"uint MAX_PLANES = {MAX_PLANES}": "planes that the table can hold",
    },
    structs={
        "Plane": {
            "uvec2 value": "64-bit address of the parameter, `width` floats an item",
            "uvec2 first": "address of the first moments of Adam",
            "uvec2 second": "address of the second moments of Adam",
            "uvec2 gradient": "address of dL/d parameter, as laid out as the parameter; 0 where it "
            "is computed when it is needed",
            "uvec2 average": "address of the parameter's average over steps; 0 where none is kept",
            "uint width": "numbers of an item, 1 to 4",
            "uint quantity": "which quantity it belongs to",
            "uint source": "where its gradient comes from, one of the GRADIENT_ constants",
            "uint band": "number of the SH coefficient, for planes of colour",
            "uint number": "numbers of an item in all planes before this one",
            "uint within": "planes of its quantity before this one",
            "uint items": "items; of splats 0, whose number is counts.splats",
            "uint centred": "1 where the mean over all items is kept at 0",
            "float perturbation": "stochastic gradients: what a number moves by; of means a share "
            "of the splat's shorter half axis on screen",
        },
        "Planes": {
            "uint of_splats": "planes of splats, which come first",
            "uint of_photographs": "planes of photographs, which come next",
            "uint of_cameras": "planes of cameras",
            "uint of_texels": "planes of the texels of the sky",
            f"Plane at[{MAX_PLANES}]": "",
        },
        "Splat2D": {
            "vec2 mean": "px",
            "vec3 conic": "inverse 2D covariance in completed squares (A px^-2, k, c px^-2): A (dx "
            "+ k dy)^2 + c dy^2",
            "vec2 axis1": "first half axis of the quad alpha >= 1/255, px",
            "vec2 axis2": "second half axis, px",
        },
    },
    buffers={
        "0 uniform Planes planes": "where the planes of all trained quantities are",
        "10 Splat2D splats2d[splats]": "projected splats; those of culled ones are stale",
        "11 vec4 colors2d[splats]": "colour, max(SH + 0.5, 0), and opacity of projected splats; "
        "those of culled ones are stale",
        "12 float d_splats2d[splats][9]": "sums over pixels of w, w t, w dy, w t^2, w t dy, w dy^2 "
        "with w = dL/d log opacity, t = dx + k dy; then dL/d color (3)",
        "13 uint seen[splats]": "1 where a splat is visible in this frame, + 2, 4, 8 where its "
        "red, green, blue is above 0; else 0",
        "16 vec3 d_directions[splats][3]": "of visible splats: d color / d direction of view, of "
        "red, green, blue; where gradients have no fixed planes",
        "14 vec3 d_colors[splats]": "of visible splats: dL/d color, 0 where that was cut off",
        "15 vec3 directions[splats]": "of visible splats: unit vector from the camera to the mean; "
        "the SH basis there times d_colors is dL/d sh",
        "17 vec2 shares[splats]": "of T alpha summed over the pixels of an image: the sum over "
        "photographs, and the most of one view between them",
    },
)

# Out of core: the splats that a view may show, gathered from a larger model for one step.
WORKING = subsystem(
    "working",
    "the splats that a view may show, gathered from a model",
    uses=("splats", "sort"),
    buffers={
        "5 uniform Planes model_planes": "where the planes of the model are",
        "6 Counts model_counts": "how many splats the model has",
        "7 uint working[splats]": "which splat of the model each one is, in ascending order",
        "8 uint shown_bits[model words]": "a bit for every splat of the model: 1 where the view "
        "may show it",
        "9 uint shown_sums[model blocks]": "splats that the view may show in each GROUP * "
        "SORT_ROWS of the model, then those of all before; behind the last their sum",
    },
)

# Stochastic gradients: the perturbed splats, and the differences that their images make.
STOCHASTIC = subsystem(
    "stochastic",
    "splats perturbed along their signs and against them",
    uses=("splats",),
    buffers={
        "30 Splat2D splats2d_minus[splats]": "splats perturbed against their signs; those "
        "perturbed along them are in splats2d",
        "31 vec4 colors2d_minus[splats]": "their colour and opacity",
        "32 Splat2D splats2d_cover[splats]": "unperturbed splats, enlarged until alpha >= 1/255 "
        "holds both perturbed ones",
        "33 vec4 colors2d_cover[splats]": "black, and the opacity that enlarges them",
        "34 float mean_steps[splats]": "of visible splats: what a mean moves by along each axis, "
        "world units",
        "35 float splat_differences[pairs of images][splats]": "sums of loss_differences over the "
        "pixels of a splat, for each pair of images",
        "36 float loss_differences[pixels]": "loss of a pixel with the signs less that against "
        "them, rows of camera.size.x; then running sums along each row",
    },
    images={"37 target_minus": "`target` of the splats perturbed against their signs"},
)
