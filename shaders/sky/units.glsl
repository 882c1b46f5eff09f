// Units of sky_sums for a gradient of one over the image's values: those of the pixels that see a
// texel, of which there are about `pixels_of`, stay far below 2^31. Octahedral texels differ in
// solid angle by less than three times.
float pixels_of(Camera c, uint texels) {
    return max(4.0 * 3.14159265 / float(texels) * c.focal.x * c.focal.y, 1.0);
}
float units_of(Camera c, uint texels) { return 8388608.0 / pixels_of(c, texels); }
