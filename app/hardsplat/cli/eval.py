"""`hardsplat eval`."""

from hardsplat.cli.flags import add_table, show_log

HELP = "measure PSNR and SSIM of a result on the held-out views"
REMEDIES = {"pixels": "raise --data-factor"}
FLAGS = """
result RESULT: result folder of a training, or a file of splats, see convert
--data-dir PATH: scene to compare with (default: the one trained on)
--result-dir PATH: folder for the measurements (default: next to RESULT)
--pose-opt: measure also from refined poses of the held-out views
--lpips {alex,vgg,vgg-3dgs}: measure LPIPS too: AlexNet as gsplat, VGG, or VGG as 3DGS reports
    (extra lpips)
device
verbose
"""


def add_flags(parser):
    add_table(parser, FLAGS)


def handle(flags):
    from hardsplat.train.measure.command import evaluate_run

    show_log(flags.pop("verbose", False))
    evaluate_run(flags.pop("result"), **flags)
