// The workgroups that share an image's pixels: as many as have PIXELS_A_THREAD for each thread, at most EXPOSURE_GROUPS. The others have nothing to do.
const uint PIXELS_A_THREAD = 4u;
uint sharing_groups(uvec2 size) {
    uint each = PIXELS_A_THREAD * GROUP;
    return clamp((size.x * size.y + each - 1u) / each, 1u, EXPOSURE_GROUPS);
}
