// Worker: the splats that a camera can see, far to near.
"use strict";

let positions, reach, depths, seen, keys;
const BUCKETS = 1 << 16, starts = new Uint32Array(BUCKETS);

// Counting sort by 16 bits of depth; returns how many indices it left in `order`. Keys are even in the bits of the depth as a float, which are close to its
// logarithm: nearby splats are told apart as finely as far ones.
// view: rows of world to camera, 3 x 4. low, high: (x, y) / z of the edges of what is kept. wide: 3D reach of a splat at the edge over its `reach`.
function sort({ view, near, low, high, wide }, order) {
  const [ax, ay, az, at, bx, by, bz, bt, cx, cy, cz, ct] = view, [lx, ly] = low, [hx, hy] = high, [wx, wy] = wide;
  let count = 0, nearest = Infinity, farthest = 0;
  for (let i = 0, k = 0; i < reach.length; i++, k += 3) {
    const x = positions[k], y = positions[k + 1], z = positions[k + 2], depth = cx * x + cy * y + cz * z + ct;
    if (!(depth >= near)) continue;
    const u = ax * x + ay * y + az * z + at, r = reach[i];
    if (u + r * wx < lx * depth || u - r * wx > hx * depth) continue;
    const v = bx * x + by * y + bz * z + bt;
    if (v + r * wy < ly * depth || v - r * wy > hy * depth) continue;
    depths[count] = depth;
    seen[count++] = i;
    if (depth < nearest) nearest = depth;
    if (depth > farthest) farthest = depth;
  }
  if (!count) return 0;
  const bits = new Uint32Array(depths.buffer), ends = new Uint32Array(new Float32Array([nearest, farthest]).buffer);
  const last = ends[1], scale = (BUCKETS - 1) / Math.max(ends[1] - ends[0], 1);
  starts.fill(0);
  for (let i = 0; i < count; i++) {
    keys[i] = (last - bits[i]) * scale;  // the farthest first
    starts[keys[i]]++;
  }
  for (let b = 0, sum = 0; b < BUCKETS; b++) {
    const n = starts[b];
    starts[b] = sum;
    sum += n;
  }
  for (let i = 0; i < count; i++) order[starts[keys[i]]++] = seen[i];
  return count;
}
