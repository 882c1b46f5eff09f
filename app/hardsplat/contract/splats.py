"""Splats: parameters, projections, and what stochastic gradients perturb."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, ImageSpec, Subsystem

# Splats: the table of planes that hold what is trained, and what the projection makes of them.

MAX_PLANES = 64

SPLATS = Subsystem(
    "splats",
    "trained planes by address, projected splats and their gradients",
    constants={
        "DILATION": Constant(
            0.3,
            "float",
            "px^2 added to the diagonal of the 2D covariance (Zwicker et al. 2001 "
            "low-pass, value of Kerbl et al.)",
        ),
        "FRUSTUM_SLACK": Constant(
            0.3,
            "float",
            "the Jacobian is evaluated at most this share of the half field of view "
            "outside the image",
        ),
        "QUAD_MARGIN": Constant(
            0.02,
            "float",
            "px by which a splat's outline lies outside the ellipse: corners snap to "
            "1/256 px, the fragment test decides",
        ),
        "GRADIENTS": Constant(
            9,
            "uint",
            "numbers that a splat's fragments add up in the backward draw, see d_splats2d",
        ),
        "GRADIENT_STRIDE": Constant(9, "uint", "floats from a splat's sums to the next one's"),
        "MAX_PLANES": Constant(MAX_PLANES, "uint", "planes that the table has room for"),
    },
    structs={
        "Plane": (
            Field("value", "uvec2", "64-bit address of the parameter, `width` floats an item"),
            Field("first", "uvec2", "address of the first moments of Adam"),
            Field("second", "uvec2", "address of the second moments of Adam"),
            Field(
                "gradient",
                "uvec2",
                "address of dL/d parameter, as laid out as the parameter; 0 where it is "
                "computed when it is needed",
            ),
            Field(
                "average",
                "uvec2",
                "address of the parameter's average over steps; 0 where none is kept",
            ),
            Field("width", "uint", "numbers of an item, 1 to 4"),
            Field("quantity", "uint", "which quantity it belongs to"),
            Field(
                "source", "uint", "where its gradient comes from, one of the GRADIENT_ constants"
            ),
            Field("band", "uint", "number of the SH coefficient, for planes of colour"),
            Field("number", "uint", "numbers of an item in all planes before this one"),
            Field("within", "uint", "planes of its quantity before this one"),
            Field("items", "uint", "items; of splats 0, whose number is counts.splats"),
            Field("centred", "uint", "1 where the mean over all items is kept at 0"),
            Field(
                "perturbation",
                "float",
                "stochastic gradients: what a number moves by; of means a share of the "
                "splat's shorter half axis on screen",
            ),
        ),
        "Planes": (
            Field("of_splats", "uint", "planes of splats, which come first"),
            Field("of_photographs", "uint", "planes of photographs, which come next"),
            Field("of_cameras", "uint", "planes of cameras"),
            Field("of_scene", "uint", "planes of the scene"),
            Field("at", "Plane", "", MAX_PLANES),
        ),
        "Splat2D": (
            Field("mean", "vec2", "px"),
            Field(
                "conic",
                "vec3",
                "inverse 2D covariance in completed squares (A px^-2, k, c px^-2): A (dx "
                "+ k dy)^2 + c dy^2",
            ),
            Field("axis1", "vec2", "first half axis of the quad alpha >= 1/255, px"),
            Field("axis2", "vec2", "second half axis, px"),
        ),
    },
    buffers=(
        BufferSpec(
            0,
            "planes",
            "Planes",
            (1,),
            "where the planes of all trained quantities are",
            single=True,
            uniform=True,
        ),
        BufferSpec(
            10,
            "splats2d",
            "Splat2D",
            ("splats",),
            "projected splats; those of culled ones are stale",
        ),
        BufferSpec(
            11,
            "colors2d",
            "vec4",
            ("splats",),
            "colour, max(SH + 0.5, 0), and opacity of projected splats; opacity is 0 for "
            "culled ones",
        ),
        BufferSpec(
            12,
            "d_splats2d",
            "float",
            ("splats", 9),
            "sums over pixels of w, w t, w dy, w t^2, w t dy, w dy^2 with w = dL/d log "
            "opacity, t = dx + k dy; then dL/d color (3)",
        ),
        BufferSpec(
            13,
            "seen",
            "uint",
            ("splats",),
            "1 where a splat is visible in this frame, + 2, 4, 8 where its red, green, "
            "blue is above 0; else 0",
        ),
        BufferSpec(
            16,
            "d_directions",
            "vec3",
            ("splats", 3),
            "of visible splats: d color / d direction of view, of red, green, blue; "
            "where gradients have no fixed planes",
        ),
        BufferSpec(
            14,
            "d_colors",
            "vec3",
            ("splats",),
            "of visible splats: dL/d color, 0 where that was cut off",
        ),
        BufferSpec(
            15,
            "directions",
            "vec3",
            ("splats",),
            "of visible splats: unit vector from the camera to the mean; the SH basis "
            "there times d_colors is dL/d sh",
        ),
    ),
    uses=("core",),
)

# Stochastic gradients: the perturbed splats, and the differences that their images make.
STOCHASTIC = Subsystem(
    "stochastic",
    "splats perturbed along their signs and against them",
    buffers=(
        BufferSpec(
            30,
            "splats2d_minus",
            "Splat2D",
            ("splats",),
            "splats perturbed against their signs; those perturbed along them are in splats2d",
        ),
        BufferSpec(31, "colors2d_minus", "vec4", ("splats",), "their colour and opacity"),
        BufferSpec(
            32,
            "splats2d_cover",
            "Splat2D",
            ("splats",),
            "unperturbed splats, enlarged until alpha >= 1/255 holds both perturbed ones",
        ),
        BufferSpec(
            33, "colors2d_cover", "vec4", ("splats",), "black, and the opacity that enlarges them"
        ),
        BufferSpec(
            34,
            "mean_steps",
            "float",
            ("splats",),
            "of visible splats: what a mean moves by along each axis, world units",
        ),
        BufferSpec(
            35,
            "splat_differences",
            "float",
            ("pairs of images", "splats"),
            "sums of loss_differences over the pixels of a splat, for each pair of images",
        ),
        BufferSpec(
            36,
            "loss_differences",
            "float",
            ("pixels",),
            "loss of a pixel with the signs less that against them, rows of "
            "camera.size.x; then running sums along each row",
        ),
    ),
    images=(ImageSpec(37, "target_minus", "`target` of the splats perturbed against their signs"),),
    uses=("splats",),
)
