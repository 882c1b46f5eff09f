"""The view in browsers, by viser: `train --serve`, `view --serve`."""
