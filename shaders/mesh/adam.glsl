// An Adam step (Kingma & Ba 2015, algorithm 1) of one vec3: its new value, moments in place.
#define ADAM(moments, at, stride, value, gradient, rate)                                      \
    {                                                                                         \
        vec3 m_ = mix(gradient, moments[at], hyper.beta1);                                    \
        vec3 v_ = mix(gradient * gradient, moments[(stride) + at], hyper.beta2);              \
        moments[at] = m_;                                                                     \
        moments[(stride) + at] = v_;                                                          \
        value -= (rate) / frame.bias1 * m_ / (sqrt(v_ / frame.bias2) + hyper.eps);            \
    }
