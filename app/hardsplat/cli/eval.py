"""`hardsplat eval`."""

from hardsplat.cli.flags import add_setting, show_log

HELP = "measure PSNR and SSIM of a result on the held-out views"
REMEDIES = {"pixels": "raise --data-factor"}


def add_flags(parser):
    parser.add_argument(
        "result",
        metavar="RESULT",
        help="result folder of a training, or a file of splats, see convert",
    )
    parser.add_argument(
        "--data-dir", metavar="PATH", help="scene to compare with (default: the one trained on)"
    )
    parser.add_argument(
        "--result-dir", metavar="PATH", help="folder for the measurements (default: beside RESULT)"
    )
    parser.add_argument(
        "--pose-opt",
        action="store_true",
        help="measure also from refined poses of the held-out views",
    )
    networks = ("alex", "vgg", "vgg-3dgs")
    parser.add_argument(
        "--lpips",
        metavar="|".join(networks),
        choices=networks,
        help="measure LPIPS too: AlexNet as gsplat, VGG, or VGG as 3DGS reports (extra lpips)",
    )
    add_setting(parser, "device")
    add_setting(parser, "verbose")


def handle(flags):
    from hardsplat.train.measure.command import evaluate_run

    show_log(flags.pop("verbose", False))
    evaluate_run(flags.pop("result"), **flags)
