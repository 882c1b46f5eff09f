// How far red, green and blue of a camera are from what they share, squared; without it three
// channels explain what is the scene's (PPISP's variance of channels).
vec4 channels_of(vec4 q) { return vec4(q.rgb * q.rgb, 0.0); }
vec4 d_channels_of(vec4 q) { return vec4(2.0 * q.rgb, 0.0); }
