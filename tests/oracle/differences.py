"""Gradients by central differences, and how the mean of estimates comes near a gradient."""

import numpy as np


def central(f, at, step):
    """Central differences of a number by each of `at`, in its shape."""
    out = np.zeros(at.shape)
    for i in np.ndindex(at.shape):
        way = np.zeros(at.shape)
        way[i] = step
        out[i] = (f(at + way) - f(at - way)) / (2 * step)
    return out


def errors_by_samples(samples, exact, counts):
    """Relative errors of means of `counts` of samples (S, ...), and their log-log slope."""
    samples, exact, errors = samples.reshape(len(samples), -1), exact.ravel(), []
    for n in counts:
        means = samples[: len(samples) // n * n].reshape(-1, n, len(exact)).mean(1)
        errors.append(np.sqrt(np.mean(np.sum((means - exact) ** 2, 1))) / np.linalg.norm(exact))
    return np.array(errors), np.polyfit(np.log(counts), np.log(errors), 1)[0]
