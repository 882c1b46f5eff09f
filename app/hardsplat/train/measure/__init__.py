"""PSNR and SSIM of views."""
