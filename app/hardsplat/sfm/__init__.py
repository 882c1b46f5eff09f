"""From photographs, or a video, to a COLMAP model of where each was taken: `hardsplat sfm`.

    run.py        the command: input, stages in order, what people see
    config.py     its settings
    photographs.py, cameras.py    what is in a folder, and which photographs share a camera
    exif.py       where and how a photograph was taken, and whether it shows all directions
    video.py      a video's frames, and the sharp ones that are worth keeping
    plan.py       the choices that depend on how many photographs there are, and the time they take
    process.py    the process that does the work; worker.py is its other end
    stages.py     the stages in that process: features.py, then pairs.py and comparing.py with
        matching.py, then poses
    poses.py      the last stage, made of start.py, mapping.py, adjusting.py and patches.py
    database.py, state.py    COLMAP's database, and which settings what is in it was made with
    aligning.py   the model in metres and upright
    outcome.py    which photographs have a pose, and why the others have none
    parts.py, sheet.py    what does not connect, and its page

pycolmap is imported in the worker's process alone: when it fails or is interrupted, that process
ends and nothing else does.
"""
