"""The loss: photographs, weights of its terms, what the derivative of SSIM needs, and the results of a step."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

LOSS = Subsystem(
    "loss",
    "photographs, loss and metrics",
    constants={
        "SSIM_RADIUS": Constant(5, "int", "11x11 window, sigma 1.5 (Wang et al. 2004)"),
        "IGNORED": Constant(0x00FFFFFF, "uint", "word of `photos` where a mask takes the pixel out of loss and metrics: no premultiplied colour has it"),
    },
    structs={
        "StepRecord": (
            Field("l1", "float", "mean absolute error"),
            Field("ssim", "float", "mean SSIM, zero-padded"),
            Field("mse", "float", "mean squared error"),
            Field("visible", "uint", "splats that the view showed"),
            Field("splats", "uint", "splats alive"),
            Field("pairs", "uint", "pairs of tile and splat that the step asked for, low word"),
            Field("pairs_high", "uint", "the same, high word"),
        ),
        "LossSettings": (Field("ssim_lambda", "float", "weight of D-SSIM in the loss"),),
    },
    buffers=(
        BufferSpec(
            70,
            "photos",
            "uint",
            ("photograph bytes",),
            "photographs, rows of camera.size.x: RGBA8 with red in the low byte, colour times alpha; in training RGB8 where that says all",
        ),
        BufferSpec(71, "ssim_grads", "float", (9, "pixels"), "per channel dSSIM/d(E[x], E[x^2], E[xy]), nine planes of camera.size"),
        BufferSpec(72, "loss_sums", "vec3", ("pixel groups",), "(L1, SSIM, squared error) summed over a workgroup, row by row over the tiles of camera.size"),
        BufferSpec(73, "history", "StepRecord", ("steps",), "results of step s at s % HISTORY"),
        BufferSpec(74, "loss_settings", "LossSettings", (1,), "weights of the loss", single=True),
    ),
    uses=("image",),
)
