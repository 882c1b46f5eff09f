"""The process that does the work: `worker.py FOLDER`, where the job lies. What it tells leaves as
lines of JSON: the name of a method of StageProgress, or `result` or `error`, and what it is given.

What libraries print goes to the log, which is this process's stderr. It ends at once when its input
closes: the process that started it is gone.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path

import cv2

from hardsplat.base.errors import UserError, reason
from hardsplat.sfm.colmap.stages import Stages
from hardsplat.sfm.process import JOB, LOG


def main(folder: Path) -> None:
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what libraries print must not fall among the messages
        lock = threading.Lock()

        def send(*message) -> None:
            with lock:
                print(json.dumps(message), file=out, flush=True)

        threading.Thread(target=_end_with_input, daemon=True).start()
        threading.Thread(target=_tell_headings, args=(folder / LOG, send), daemon=True).start()
        job = json.loads((folder / JOB).read_text(encoding="utf-8"))
        try:
            send("result", Stages(job, send).run())
        except UserError as error:
            send("error", str(error))
        except OSError as error:
            send("error", f"{error.filename or folder}: {error.strerror or error}")
        except Exception as error:  # COLMAP's failed checks are of many types
            traceback.print_exc()
            said = f"{type(error).__name__}: {reason(error)}; all it said is in {folder / LOG}"
            send("error", f"COLMAP failed: {said}")


def _end_with_input() -> None:
    """Ends this process once its input has closed."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def _tell_headings(log: Path, send) -> None:
    """Sends on what the global mapper's log calls its steps: it has no callbacks that would."""
    with open(log, errors="replace") as said:
        said.seek(0, os.SEEK_END)
        while True:
            time.sleep(0.5)
            for line in said:
                if "=== Running " in line:
                    send("phase", line.split("=== Running ")[1].split(" ===")[0])


if __name__ == "__main__":
    faulthandler.enable()
    cv2.setNumThreads(1)  # the pool has a thread a core
    main(Path(sys.argv[1]))
