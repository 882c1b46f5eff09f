"""From photographs, or a video, to a COLMAP model of where each was taken: `hardsplat sfm`.

    run.py        the command: input, what people see
    process.py    the process that does the work, on both of its sides
    job/          settings; what photographs, videos and earlier runs say
    colmap/       the work: job.py has its stages in order

pycolmap is imported in the worker's process alone: when it fails or is interrupted, that process
ends and nothing else does.
"""
