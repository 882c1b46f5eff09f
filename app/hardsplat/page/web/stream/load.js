// What hardsplat.js exports: load(url, element) shows the scene of a lod-meta.json within an element of any page.
"use strict";

const MOST_META_BYTES = 16 << 20, MOST_CAMERAS = 500, SPARE = 1.25;  // SPARE: room for splats that replace others

// url: of lod-meta.json, or of its folder. budget: splats to draw at most. whole: the viewer covers the page, and follows #camera=N, #budget=N and #still.
// Resolves to {element, go(camera), stop()}; rejects with an Error of one line.
export async function load(url, element = document.body, { budget, whole = false } = {}) {
  const page = new DOMParser().parseFromString(PART, "text/html"), root = page.querySelector(".hs");
  root.toggleAttribute("data-whole", whole);
  if (whole) root.setAttribute("role", "main");
  if (!document.adoptedStyleSheets.includes(SHEET)) document.adoptedStyleSheets.push(SHEET);
  element.append(root);
  try {
    const place = new URL(url, document.baseURI), base = place.pathname.endsWith("/") ? new URL("lod-meta.json", place) : place;
    const tree = checkedTree(JSON.parse(await textOf(base))), asked = whole ? new URLSearchParams(location.hash.slice(1)).get("budget") : null;
    const most = Math.max(1, Number(budget ?? asked) || usualBudget()), header = checkedView(tree.own, tree);
    const gl = document.createElement("canvas").getContext("webgl2"), fits = 2048 * Math.min(gl?.getParameter(gl.MAX_TEXTURE_SIZE) ?? 2048, 8192);
    const kept = Math.min(most, header.splats, Math.floor(fits / SPARE / 1.1)), leaves = tree.low.length / 3;
    const capacity = Math.ceil(SPARE * kept + 256 * leaves + 65536);
    root.querySelector(".hs-canvas").setAttribute("aria-label", `${header.title}, in 3D. Drag to turn it, arrow keys go from camera to camera, H shows all keys.`);
    const first = { tree, base: base.href, budget: kept, capacity: Math.min(capacity, fits), degree: header.degree, antialiased: header.antialiased };
    return startViewer(root, { header, shaders: SHADERS, worker: WORKER, first });
  } catch (error) {
    root.dataset.state = "failed";
    root.querySelector(".hs-message").textContent = error.message;
    throw error;
  }
}

// Splats that a device draws with ease, by what browsers tell of it.
const usualBudget = () => matchMedia("(pointer: coarse)").matches ? 500000 : (navigator.deviceMemory ?? 8) < 8 ? 1000000 : 3000000;

async function textOf(url) {
  const answer = await fetch(url, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${url.pathname} cannot be loaded: ${answer.status} ${answer.statusText}`);
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
    if (text.length > MOST_META_BYTES) {
      reader.cancel();
      throw new Error("lod-meta.json is too large");
    }
  }
}

// What hardsplat adds to lod-meta.json: cameras, up, centre, colours; for files of others, a view from afar.
function checkedView(own, tree) {
  const counts = Array.from({ length: tree.low.length / 3 }, (_, i) => tree.count.subarray(i * tree.levels, (i + 1) * tree.levels).find(n => n > 0));
  const common = { streamed: true, splats: counts.reduce((a, b) => a + b, 0), degree: null, antialiased: null, scale: [-20, 12], color: [-2, 3], sh: [1 / 64, 1 / 64, 1 / 64] };
  if (own === undefined) return { ...common, ...fromAfar(tree), title: "Scene" };
  const { near, background, up, centre, cameras, degree, antialiased, title = "Scene" } = own ?? {};
  const posed = c => c && areFinite(c.w2c, 12) && areFinite(c.K, 4) && areFinite(c.size, 2) && c.size.every(n => n > 0) && c.K[0] > 0 && c.K[1] > 0 && typeof c.name === "string";
  if (!Number.isFinite(near) || !areFinite(background, 3) || !areFinite(up, 3) || !areFinite(centre, 3) || ![0, 1, 2, 3].includes(degree)) damaged("the view");
  if (!Array.isArray(cameras) || cameras.length < 1 || cameras.length > MOST_CAMERAS || !cameras.every(posed)) damaged("the cameras");
  return { ...common, near, background, up, centre, cameras, degree, antialiased: Boolean(antialiased), title: String(title).slice(0, 200) };
}

function fromAfar({ low, high }) {
  const middle = k => median(Array.from({ length: low.length / 3 }, (_, i) => (low[3 * i + k] + high[3 * i + k]) / 2)), centre = [0, 1, 2].map(middle);
  const far = i => Math.hypot(...[0, 1, 2].map(k => Math.max(high[3 * i + k] - centre[k], centre[k] - low[3 * i + k])));
  const away = 2.2 * median(Array.from({ length: low.length / 3 }, (_, i) => far(i)));
  const cameras = [{ name: "start", w2c: [1, 0, 0, -centre[0], 0, 1, 0, -centre[1], 0, 0, 1, away - centre[2]], K: [800, 800, 640, 360], size: [1280, 720] }];
  return { near: away / 1000, background: [0, 0, 0], up: [0, -1, 0], centre, cameras };
}
const median = list => list.sort((a, b) => a - b)[list.length >> 1];
