// The planes of what is trained, for slots that share a shader.
#include "contract/trained.glsl"
UNIFORM_planes
