// A step of Adam (Kingma & Ba 2015, algorithm 1): parameter and moments in place, in any storage.
// The includer has `frame`.
#include "contract/train.glsl"
BUFFER_adam_settings(readonly)

#define ADAM_OF(numbers)                                                                  \
    void adam(inout numbers p, inout numbers m, inout numbers v, numbers d, float rate) { \
        m = mix(d, m, adam_settings.beta1);                                               \
        v = mix(d * d, v, adam_settings.beta2);                                           \
        p -= rate / frame.bias1 * m / (sqrt(v / frame.bias2) + adam_settings.eps);        \
    }
ADAM_OF(float)
ADAM_OF(vec3)
ADAM_OF(vec4)
