"""What a window shows of splats: the camera, what keys and panels change, pictures."""
