// Worker, last part: which chunks are loaded, where their splats are stored, and what is drawn meanwhile.
"use strict";

const AT_ONCE = 4, TRIES = 3;  // chunks that are loaded side by side; attempts at one
let tree, base, budget, degree, eyes = null;  // eyes: the last view
let shown, slots, free = [], parting = [], loading = new Map(), failures = new Map(), paused = new Set(), drawn = 0, told = "", textures = 0;

// Room for `budget` splats, and for what replaces them.
function prepare(capacity) {
  const size = WIDTH * Math.ceil(capacity / WIDTH);
  positions = new Float32Array(3 * size).fill(NaN);
  reach = new Float32Array(size);
  depths = new Float32Array(size);
  seen = new Uint32Array(size);
  keys = new Uint16Array(size);
  free = Array.from({ length: size / SLOT }, (_, i) => size / SLOT - 1 - i);
  shown = new Int8Array(tree.low.length / 3).fill(-1);
  slots = Array.from(shown, () => []);
}

// Puts a run of splats where a leaf had another, or nothing. Whether there was room.
function place(leaf, level, run) {
  const wanted = run.reach.length / SLOT;
  if (wanted > free.length) return false;
  const taken = Array.from({ length: wanted }, () => free.pop());
  taken.forEach((slot, i) => {
    positions.set(run.positions.subarray(3 * SLOT * i, 3 * SLOT * (i + 1)), 3 * SLOT * slot);
    reach.set(run.reach.subarray(SLOT * i, SLOT * (i + 1)), SLOT * slot);
  });
  if (leaf !== null) {
    slots[leaf].forEach(slot => positions.fill(NaN, 3 * SLOT * slot, 3 * SLOT * (slot + 1)));
    parting.push(...slots[leaf]);  // the last order still draws them
    drawn += tree.count[leaf * tree.levels + level] - (shown[leaf] < 0 ? 0 : tree.count[leaf * tree.levels + shown[leaf]]);
    slots[leaf] = taken;
    shown[leaf] = level;
  }
  postMessage({ slots: taken, ...run, positions: null, reach: null }, [run.places.buffer, run.shapes.buffer, ...run.sh.map(words => words.buffer)]);
  return true;
}

// Places of runs that leaves should be drawn with, those that are worst off first: nothing there, then coarser than wanted, then finer, where that is too much.
function wanting() {
  const chosen = chooseLevels(tree, eyes, budget), { levels, file } = tree, list = [];
  const coarsest = i => { for (let l = levels; l--;) if (file[i * levels + l] >= 0) return l; };
  chosen.forEach((level, leaf) => {
    const now = shown[leaf];
    if (level < 0 || level === now || level > now && now >= 0 && !tight()) return;
    list.push(now < 0 ? { leaf, level: coarsest(leaf), far: levels } : { leaf, level, far: now - level });
  });
  for (const run of list) run.at = run.leaf * levels + run.level;
  return list.sort((a, b) => b.far - a.far || a.leaf - b.leaf);
}
const broken = at => (failures.get(tree.file[at]) ?? 0) >= TRIES;
const tight = () => drawn > budget || (free.length + parting.length) * SLOT < 0.1 * reach.length;

// Loads what the view wants and is not there.
function advance() {
  if (!eyes) return;
  const list = wanting().filter(({ at }) => !broken(at)), files = new Set(list.map(({ at }) => tree.file[at]));
  for (const file of files) {
    if (loading.size >= AT_ONCE) break;
    if (loading.has(file) || paused.has(file)) continue;
    loading.set(file, loadChunk(new URL(tree.files[file], base), tree.sizes[file]).then(chunk => arrived(file, chunk), error => failed(file, error)));
  }
  const progress = { splats: drawn, bytes: received, loading: files.size + loading.size > 0, failed: failures.size }, news = JSON.stringify(progress);
  if (news !== told) postMessage({ progress });
  told = news;
}

function arrived(file, chunk) {
  loading.delete(file);
  let full = false, placed = false;
  for (const { leaf, level, at } of wanting()) {
    if (tree.file[at] !== file) continue;
    if (place(leaf, level, runOf(chunk, tree.first[at], tree.count[at], textures))) placed = true;
    else full = true;
  }
  if (full) hold(file, 200);  // until a sort has freed slots
  if (placed) postMessage({ changed: true, bytes: received });  // which brings a sort; it comes before further chunks
  else advance();
}

// Leaves a file alone for a while.
function hold(file, milliseconds) {
  paused.add(file);
  setTimeout(() => {
    paused.delete(file);
    advance();
  }, milliseconds);
}

function failed(file, error) {
  loading.delete(file);
  const times = (failures.get(file) ?? 0) + 1;
  failures.set(file, times);
  if (times >= TRIES && !drawn) postMessage({ error: error.message });
  hold(file, 300 * times);
  advance();
}

// The first chunk says which colours there are.
async function begin(data) {
  ({ tree, base, budget } = data);
  const coarsest = tree.file.findLast(file => file >= 0), first = await chunkMeta(new URL(tree.files[coarsest], base), tree.sizes[coarsest]);
  degree = data.degree ?? first.bands;
  textures = Math.ceil(((degree + 1) ** 2 - 1) / 4);
  const around = tree.environment === null ? null : await chunkMeta(new URL(tree.environment, base), null);
  prepare(data.capacity + (around ? around.count + SLOT : 0));
  postMessage({ unpacking: true, degree, antialiased: data.antialiased ?? Boolean(first.antialias), rows: reach.length / WIDTH });
  if (around) {
    const chunk = await loadChunk(new URL(tree.environment, base), around.count);
    place(null, 0, runOf(chunk, 0, around.count, textures));
  }
}

let ready = null;
onmessage = async ({ data }) => {
  try {
    if (data.tree) {
      await (ready = begin(data));
      return;
    }
    await ready;
    eyes = { view: data.view, focal: data.focal, near: data.near, low: data.low, high: data.high };
    const order = data.order.length ? data.order : new Uint32Array(reach.length), began = performance.now();
    const count = sort(data, order), freed = parting.splice(0);
    postMessage({ order, count, ms: performance.now() - began }, [order.buffer]);
    free.push(...freed);
    advance();
  } catch (error) {
    postMessage({ error: error.message });
  }
};
