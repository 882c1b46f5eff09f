// The tree of lod-meta.json, checked, and which level of detail each of its leaves is drawn in. hardsplat.render.streaming does the same.
"use strict";

const MOST_LEVELS = 16, MOST_DEPTH = 64, MOST_LEAVES = 65536, MOST_RUN = 2 ** 40;

function damaged(what) { throw new Error(`lod-meta.json is damaged: ${what}`); }

const isWhole = (x, low, high) => Number.isInteger(x) && x >= low && x <= high;
const areFinite = (list, n) => Array.isArray(list) && list.length === n && list.every(Number.isFinite);

// {levels, files, low, high: 3 numbers a leaf; file, first, count, errors: `levels` numbers a leaf, finest first, file -1 where there is none;
// sizes: splats of each file; environment}. Throws where a number is out of range, runs overlap, or a path leads out of the folder.
function checkedTree(meta) {
  if (meta === null || typeof meta !== "object") damaged("no object");
  if ((meta.version ?? 1) !== 1) throw new Error(`streamed SOG of version ${String(meta.version).slice(0, 20)}; this page reads version 1`);
  const levels = meta.lodLevels, files = meta.filenames;
  if (!isWhole(levels, 1, MOST_LEVELS)) damaged("number of levels");
  if (!Array.isArray(files) || files.length < 1 || files.length > MOST_LEAVES) damaged("list of files");
  [...files, meta.environment ?? "meta.json"].forEach(checkPath);
  const leaves = leavesOf(meta.tree), n = leaves.length, low = new Float64Array(3 * n), high = new Float64Array(3 * n);
  const file = new Int32Array(n * levels).fill(-1), first = new Float64Array(n * levels), count = new Float64Array(n * levels), errors = new Float64Array(n * levels);
  leaves.forEach(({ bound, lods, errors: own }, i) => {
    if (!areFinite(bound?.min, 3) || !areFinite(bound?.max, 3) || bound.min.some((x, k) => x > bound.max[k])) damaged("bounds of a leaf");
    low.set(bound.min, 3 * i);
    high.set(bound.max, 3 * i);
    if (lods === null || typeof lods !== "object" || !Object.keys(lods).length) damaged("a leaf without levels");
    for (const [key, run] of Object.entries(lods)) {
      const at = i * levels + Number(key);
      if (!/^\d{1,2}$/.test(key) || Number(key) >= levels) damaged("number of a level");
      if (!isWhole(run?.file, 0, files.length - 1) || !isWhole(run.offset, 0, MOST_RUN) || !isWhole(run.count, 1, MOST_RUN)) damaged("a run of splats");
      file[at] = run.file;
      first[at] = run.offset;
      count[at] = run.count;
    }
    if (meta.lodErrors === true && (!areFinite(own, levels) || own.some(x => x < 0))) damaged("errors of a leaf");
    const counts = count.subarray(i * levels, (i + 1) * levels), most = Math.max(...counts);
    for (let l = 0, worst = 0; l < levels; l++) {
      worst = Math.max(worst, meta.lodErrors === true ? own[l] : Math.sqrt(most / Math.max(counts[l], 1)) - 1);
      errors[i * levels + l] = worst;
    }
  });
  const sizes = new Float64Array(files.length), runs = [...file.keys()].filter(at => file[at] >= 0).sort((a, b) => file[a] - file[b] || first[a] - first[b]);
  for (const at of runs) {
    if (first[at] !== sizes[file[at]]) damaged("runs of splats overlap, or leave some out");
    sizes[file[at]] += count[at];
  }
  if (sizes.some(size => !size)) damaged("a file that no leaf uses");
  return { levels, files, low, high, file, first, count, errors, sizes, environment: meta.environment ?? null, own: meta.hardsplat };
}

// A meta.json in a folder below.
function checkPath(name) {
  const parts = typeof name === "string" ? name.split("/") : [];
  if (/[\\:%?#\0]/.test(name) || parts.at(-1) !== "meta.json" || parts.some(part => part === ".." || part === "" || part === ".")) damaged("a path that is no meta.json below its folder");
}

function leavesOf(root) {
  const stack = [[root, 0]], found = [];
  while (stack.length) {
    const [node, depth] = stack.pop();
    if (node === null || typeof node !== "object" || depth > MOST_DEPTH) damaged("a node of the tree");
    if (node.children === undefined || node.children === null) {
      if (found.push(node) > MOST_LEAVES) damaged("too many leaves");
    } else {
      if (!Array.isArray(node.children) || node.children.length !== 2) damaged("a node with other than two children");
      stack.push([node.children[1], depth + 1], [node.children[0], depth + 1]);
    }
  }
  return found;
}

// Int8Array, the level of each leaf; -1 where the budget of splats has none for it.
// view: rows of world to camera, 3 x 4. focal: px. low, high: (x, y) / z of the edges of the image. Leaves that are out of view get their coarsest level, after
// the others; those in view are refined where that takes most error away a splat, on the screen.
function chooseLevels(tree, { view, focal, near, low, high }, budget) {
  const { levels, count, errors } = tree, n = tree.low.length / 3, chosen = new Int8Array(n).fill(-1), seen = [], px = new Float64Array(n), wide = new Float64Array(n);
  const eye = [0, 1, 2].map(j => -(view[j] * view[3] + view[4 + j] * view[7] + view[8 + j] * view[11]));
  for (let i = 0; i < n; i++) {
    let square = 0, span = 0;
    for (let k = 0; k < 3; k++) {
      const a = tree.low[3 * i + k], b = tree.high[3 * i + k], out = Math.max(a - eye[k], eye[k] - b, 0);
      square += out * out;
      span += (b - a) * (b - a);
    }
    wide[i] = Math.sqrt(span);
    px[i] = focal / Math.max(Math.sqrt(square), 0.25 * wide[i], near);
    seen.push(inView(tree, i, view, near, low, high));
  }
  const coarsest = i => { for (let l = levels; l--;) if (count[i * levels + l]) return l; };
  const order = [...chosen.keys()].sort((a, b) => seen[b] - seen[a] || px[b] - px[a] || a - b);
  let left = budget;
  for (const i of order) {
    const l = coarsest(i), cost = count[i * levels + l];
    if (cost > left) break;
    chosen[i] = l;
    left -= cost;
  }
  const steps = [];
  for (let i = 0; i < n; i++) {
    if (!seen[i] || chosen[i] < 0) continue;
    const shown = l => errors[i * levels + l] * px[i] * px[i] * Math.min(1, wide[i] * wide[i] / count[i * levels + l] * px[i] * px[i]);
    for (let from = chosen[i], best = Infinity, l = from - 1; l >= 0; l--) {
      const cost = count[i * levels + l] - count[i * levels + from];
      if (!count[i * levels + l]) continue;
      best = Math.min(best, Math.max(shown(from) - shown(l), 0) / Math.max(cost, 1));
      steps.push([best, i, l, Math.max(cost, 0)]);
      from = l;
    }
  }
  steps.sort((a, b) => b[0] - a[0]);
  for (const [, i, l, cost] of steps) {
    if (cost > left) break;
    chosen[i] = l;
    left -= cost;
  }
  return chosen;
}

// Whether a leaf's box can be within the image: no plane of its edges has all corners outside.
function inView(tree, i, view, near, low, high) {
  const out = [0, 0, 0, 0, 0];
  for (let corner = 0; corner < 8; corner++) {
    const p = [0, 1, 2].map(k => (corner >> k & 1 ? tree.high : tree.low)[3 * i + k]);
    const [x, y, z] = [0, 4, 8].map(row => view[row] * p[0] + view[row + 1] * p[1] + view[row + 2] * p[2] + view[row + 3]);
    out[0] += z < near;
    out[1] += x < low[0] * z;
    out[2] += x > high[0] * z;
    out[3] += y < low[1] * z;
    out[4] += y > high[1] * z;
  }
  return Number(!out.includes(8));
}
