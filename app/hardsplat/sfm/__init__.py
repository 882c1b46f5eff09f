"""From photographs, or a video, to a COLMAP model of where each was taken: `hardsplat sfm`.

    run.py        the command: input, stages in order, what people see
    process.py    the process that does the work; worker.py is its other end
    colmap/stages.py    the stages in that process: features.py, pairs.py, poses.py
    job/config.py    settings; plan.py: the choices that depend on how many photographs there are
    job/photographs.py    what is in a folder, and which photographs share a camera
    job/exif.py   where, how and by which camera a photograph was taken
    job/video.py  a video's frames, and the sharp ones that are worth keeping
    job/state.py  what was done with which settings, and what failed
    colmap/poses.py    the last stage: attempts by mapping.py, lens.py, aligning.py in metres and
        upright, outcome.py with what does not connect, of which job/sheet.py makes a page

pycolmap is imported in the worker's process alone: when it fails or is interrupted, that process
ends and nothing else does.
"""
