// What the terms of the loss see of a pixel.
struct Compared {
    vec3 x;       // rendered, over the background
    vec3 y;       // the photograph
    vec3 minus;   // a second rendered colour, with stochastic gradients
    vec3 ssim;    // SSIM of the window around the pixel, where values are asked for
    // Derivative of the sum of SSIM over all windows by x, where derivatives are asked for.
    vec3 d_ssim;
};
