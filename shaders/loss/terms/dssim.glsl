// 1 - SSIM. SSIM of a pixel depends on its neighbours, so a difference is taken by the gradient at
// x: of the pixel itself, and the same to first order. What is left to second order does not change
// with the roles of the two images, so it averages out of a stochastic gradient.
float dssim_of(Compared c) { return 3.0 - dot(c.ssim, vec3(1.0)); }
vec3 d_dssim_of(Compared c) { return -c.d_ssim; }
float dssim_difference(Compared c) { return -dot(c.d_ssim, c.x - c.minus); }
