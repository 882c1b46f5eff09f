// What the terms of the loss see of a pixel. Those that compare it with its neighbours read them by
// the functions of loss/pixel.glsl and loss/seen.glsl.
struct Compared {
    ivec2 at;     // the pixel
    vec3 x;       // rendered, over the background
    vec3 y;       // the photograph
    vec3 minus;   // a second rendered colour, with stochastic gradients
    vec3 ssim;    // SSIM of the window around the pixel, where values are asked for
    // Derivative of the sum of SSIM over all windows by x, where derivatives are asked for.
    vec3 d_ssim;
};
