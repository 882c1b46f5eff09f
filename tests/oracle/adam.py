"""Optimizer of 3DGS: Adam (Kingma and Ba 2015, algorithm 1) and the learning rate of the
positions."""

import numpy as np


def decayed(logits, seen, lr, decay):
    """What a step takes from logit opacities besides: of those that are seen, the decay along the
    derivative of their mean (AdamW, Loshchilov and Hutter 2019, algorithm 2)."""
    opacity = 1 / (1 + np.exp(-logits))
    return lr * decay * np.where(seen, opacity * (1 - opacity), 0)


def adam_step(param, d_param, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-15):
    """One step with bias correction; `step` counts from 1. Returns the new (param, m, v); eps as in
    Inria's training setup."""
    m = beta1 * m + (1 - beta1) * d_param
    v = beta2 * v + (1 - beta2) * d_param**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return param - lr * m_hat / (np.sqrt(v_hat) + eps), m, v
