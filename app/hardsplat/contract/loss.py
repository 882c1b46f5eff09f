"""The loss: photographs, weights of its terms, what the derivative of SSIM needs, and the results of a step."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

MAX_TERMS = 16

LOSS = Subsystem(
    "loss",
    "photographs, loss and metrics",
    constants={
        "SSIM_RADIUS": Constant(5, "int", "11x11 window, sigma 1.5 (Wang et al. 2004)"),
        "MAX_TERMS": Constant(MAX_TERMS, "uint", "terms that a loss can have"),
        "IGNORED": Constant(0x00FFFFFF, "uint", "word of `photos` where a mask takes the pixel out of loss and metrics: no premultiplied colour has it"),
    },
    structs={
        "StepRecord": (
            Field("terms", "float", "mean of each term of the loss, without its weight", MAX_TERMS),
            Field("mse", "float", "mean squared error"),
            Field("visible", "uint", "splats that the view showed"),
            Field("splats", "uint", "splats alive"),
            Field("pairs", "uint", "pairs of tile and splat that the step asked for, low word"),
            Field("pairs_high", "uint", "the same, high word"),
        ),
        "LossTerms": (
            Field("weight", "float", "weight of each term", MAX_TERMS),
            Field("first", "uint", "of a term of parameters: its first region in term_sums", MAX_TERMS),
            Field("regions", "uint", "of a term of parameters: its regions, one a plane of the quantity; 0 for terms of pixels", MAX_TERMS),
            Field("width", "uint", "of a term of parameters: numbers of an item in a plane", MAX_TERMS),
            Field("items", "uint", "of a term of parameters: items; of splats 0, whose number is counts.splats", MAX_TERMS),
            Field("groups", "uint", "workgroups that a region has room for"),
        ),
    },
    buffers=(
        BufferSpec(
            70,
            "photos",
            "uint",
            ("photograph bytes",),
            "photographs, rows of camera.size.x: RGBA8 with red in the low byte, colour times alpha; in training RGB8 where that says all",
        ),
        BufferSpec(
            119, "photographs", "uint", ("photograph bytes",), "in host memory: all photographs, where `photos` has the one of the step; each begins at a multiple of four pixels"
        ),
        BufferSpec(71, "ssim_grads", "float", (9, "pixels"), "per channel dSSIM/d(E[x], E[x^2], E[xy]), nine planes of camera.size"),
        BufferSpec(
            72,
            "loss_sums",
            "float",
            ("pixel groups", MAX_TERMS + 1),
            "squared error, then each term of pixels, summed over a workgroup; row by row over the tiles of camera.size",
        ),
        BufferSpec(73, "history", "StepRecord", ("steps",), "results of step s at s % HISTORY"),
        BufferSpec(74, "loss_terms", "LossTerms", (1,), "weights of the loss's terms, and where their sums are", single=True, uniform=True),
        BufferSpec(75, "term_sums", "float", ("terms", "groups"), "values of a term of parameters, summed over a workgroup of the optimizer, region by region"),
    ),
    uses=("image",),
)
