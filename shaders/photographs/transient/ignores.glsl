// <ignores> of loss/pixel.glsl: the loss leaves out the cells that were found to move.
#include "contract/transient.glsl"
BUFFER_transient_settings(readonly)
BUFFER_residuals(readonly)
#include "photographs/transient/cells.glsl"

bool ignores(ivec2 at) { return residuals[residual_at(uvec2(at) / CELL)] < 0.0; }
