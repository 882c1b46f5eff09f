// What training changes of a splat: parameters and Adam moments.
#include <moments>
BUFFER_means(restrict)
BUFFER_quats(restrict)
BUFFER_log_scales(restrict)
BUFFER_logit_opacities(restrict)
BUFFER_sh(restrict)
BUFFER_adam_means(restrict)
BUFFER_adam_quats(restrict)
BUFFER_adam_log_scales(restrict)
BUFFER_adam_logit_opacities(restrict)
BUFFER_adam_sh(restrict)
