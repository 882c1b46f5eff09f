"""Adam (Kingma and Ba 2015, algorithm 1), as 3DGS has it, and the rate of positions."""

import numpy as np


def decayed(logits, lr, decay):
    """What a step takes from logit opacities (AdamW, Loshchilov and Hutter 2019)."""
    opacity = 1 / (1 + np.exp(-logits))
    return lr * decay * opacity * (1 - opacity)


def adam_step(param, d_param, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-15):
    """One step; `step` counts from 1. The new (param, m, v); eps as in Inria's training setup."""
    m = beta1 * m + (1 - beta1) * d_param
    v = beta2 * v + (1 - beta2) * d_param**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return param - lr * m_hat / (np.sqrt(v_hat) + eps), m, v
