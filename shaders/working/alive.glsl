// <alive> of loss/reduce.comp: the splats are a working set of a model.
#include "contract/working.glsl"
BUFFER_model_counts(readonly)
uint alive() { return model_counts.splats; }
