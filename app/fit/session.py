import numpy as np
from app import contract
def canvas_row(width: int, height: int) -> np.ndarray:
    """The contract's Camera of an image that is looked at straight on: its size is all that a fit takes of it."""
    row = np.zeros((), contract.dtype("Camera"))
    row["size"] = width, height
    return row
