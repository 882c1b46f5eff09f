"""Stochastic gradients: the perturbed splats, and the differences that their images make."""

from hardsplat.contract.layout import BufferSpec, ImageSpec, Subsystem

STOCHASTIC = Subsystem(
    "stochastic",
    "splats perturbed along their signs and against them",
    buffers=(
        BufferSpec(30, "splats2d_minus", "Splat2D", ("splats",), "splats perturbed against their signs; those perturbed along them are in splats2d"),
        BufferSpec(31, "colors2d_minus", "vec4", ("splats",), "their colour and opacity"),
        BufferSpec(32, "splats2d_cover", "Splat2D", ("splats",), "unperturbed splats, enlarged until alpha >= 1/255 holds both perturbed ones"),
        BufferSpec(33, "colors2d_cover", "vec4", ("splats",), "black, and the opacity that enlarges them"),
        BufferSpec(34, "mean_steps", "float", ("splats",), "of visible splats: what a mean moves by along each axis, world units"),
        BufferSpec(35, "splat_differences", "float", ("pairs of images", "splats"), "sums of loss_differences over the pixels of a splat, for each pair of images"),
        BufferSpec(
            36,
            "loss_differences",
            "float",
            ("pixels",),
            "loss of a pixel with the signs less that against them, rows of camera.size.x; then running sums along each row",
        ),
    ),
    images=(ImageSpec(37, "target_minus", "`target` of the splats perturbed against their signs"),),
    uses=("splats",),
)
