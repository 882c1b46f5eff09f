// One viewer: its element holds the data, the sources of shaders and worker, a canvas, and what stands around that.
"use strict";

const MOST_PIXELS = 2560 * 1600, MOST_RATIO = 2;  // of the canvas; of its pixels to those of the layout
const SLOW = 50, WANTED = 33, COARSEST = 0.2, REST = 150;  // milliseconds of a picture; least share of pixels a side; milliseconds without motion
const FADE = 400;  // milliseconds, as viewer.css has it
const SLACK = 1.05, AHEAD = 1.5;  // how far beyond the edges splats are sorted: at rest, and in motion, where the order is a picture or two behind the camera

// scene: what the page holds or load.js made: {header, shaders by name, worker as text, first: message to the worker}. Returns the viewer's handle.
function startViewer(root, { header, shaders, worker: code, first: begin, budget = null }) {
  const part = name => root.querySelector(`.hs-${name}`);
  const canvas = part("canvas"), message = part("message"), stats = part("numbers"), list = part("list"), whole = root.hasAttribute("data-whole");
  const cameras = header.cameras;
  const asked = whole ? new URLSearchParams(location.hash.slice(1)) : new URLSearchParams(), still = asked.has("still");
  const number = value => /^\d{1,6}$/.test(value) && Number(value) < cameras.length ? Number(value) : null;
  const began = performance.now();
  let current = number(asked.get("camera")) ?? 0;
  const controls = new Controls(cameras[current], header.up, header.centre);

  if (current || still) part("first")?.remove();  // a picture of another camera, or one that would fade into a screenshot

  function stop(why) {
    root.dataset.state = "failed";
    message.textContent = why;
    message.hidden = false;
  }

  // Whether it went well; else people are told what did not.
  function attempt(work) {
    try {
      work();
      return true;
    } catch (error) {
      worker?.terminate();
      stop(error.message);
      return false;
    }
  }

  let painter, worker;
  const started = attempt(() => {
    if (!window.DecompressionStream) throw new Error("this browser cannot unpack the scene; update it (Chrome 80, Firefox 113, Safari 16.4 or newer)");
    worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    worker.postMessage(begin);
  });
  if (!started) return;
  canvas.addEventListener("webglcontextlost", () => stop("the graphics card was taken away from this page; reload it"));

  // What the picture was last made of; what it should be made of.
  let order = new Uint32Array(0), sorting = null, sortedFor = "", ready = false, drawnFor = "", size = [0, 0];
  let version = 0, loading = Boolean(header.streamed), news = "", jumped = still, coarse = 0.5, drawnAt = 0, submitted = 0, moved = -Infinity, last = 0, asleep = true, pictureMs = 0, sortMs = 0, first = 0;

  worker.onerror = event => stop(`the page's worker failed: ${event.message || "this browser or server forbids it"}`);
  worker.onmessage = ({ data }) => {
    if (data.error) return stop(data.error);
    if (data.unpacking) return attempt(() => {  // shaders compile meanwhile; before, they would keep the worker from starting
      painter = new Painter(canvas, Object.assign(header, { degree: data.degree ?? header.degree, antialiased: data.antialiased ?? header.antialiased }), shaders);
      if (!data.rows) return;
      painter.allocate(data.rows);
      ready = true;
      wake();
    });
    if (data.slots) return painter.place(data);
    if (data.progress) {
      const { splats, bytes, failed } = data.progress;
      loading = data.progress.loading;
      Object.assign(root.dataset, { splats, bytes });
      news = `${(bytes / 1e6).toFixed(1)} MB${failed ? `, ${failed} files failed` : ""}, `;
    } else if (data.changed) {
      sortedFor = "";
      root.dataset.firstBytes ??= data.bytes;
    } else if (data.places) {
      ready = attempt(() => painter.upload(data));
    } else {
      painter.sorted(data.order, data.count);
      version++;
      order = data.order;
      sortedFor = sorting;
      sorting = null;
      sortMs = data.ms;
    }
    wake();
  };

  function wake() {
    if (root.dataset.state === "ready") root.dataset.state = "busy";
    if (!asleep) return;
    asleep = false;
    last = performance.now();
    requestAnimationFrame(tick);
  }

  function measure() {
    const ratio = Math.min(window.devicePixelRatio, MOST_RATIO), w = Math.max(1, canvas.clientWidth * ratio), h = Math.max(1, canvas.clientHeight * ratio);
    const fit = Math.min(1, Math.sqrt(MOST_PIXELS / (w * h)));
    size = [Math.round(w * fit), Math.round(h * fit)];
  }

  // What the worker needs to know of the view on a canvas of that size.
  function request(slack) {
    const [w, h] = size, { focal, centre } = controls.fitted(w, h), half = [w / 2 / focal[0], h / 2 / focal[1]];
    const middle = [(w / 2 - centre[0]) / focal[0], (h / 2 - centre[1]) / focal[1]];
    const low = middle.map((m, i) => m - slack * half[i]), high = middle.map((m, i) => m + slack * half[i]);
    const wide = middle.map((m, i) => Math.hypot(1, Math.abs(m) + 1.3 * half[i]));
    worker.postMessage({ view: controls.view, focal: Math.max(...focal), near: header.near, low, high, wide, order }, order.length ? [order.buffer] : []);
  }

  function tick(now) {
    const seconds = Math.min((now - last) / 1000, 0.1), held = fly.step(seconds), gliding = controls.step(now);
    last = now;
    if (held || gliding) moved = now;
    measure();
    const view = JSON.stringify([controls.view, controls.lens, size]);
    if (ready && !painter.busy) finish(now);
    const moving = now - moved < REST, wanted = moving || !first && !still ? coarse : 1, picture = `${view} ${sortedFor} ${wanted} ${version}`;
    if (ready && sorting === null && sortedFor !== view) {
      sorting = view;
      request(moving ? AHEAD : SLACK);
    }
    if (ready && sortedFor && !painter.fence && drawnFor !== picture && (sortedFor === view || !jumped)) {
      painter.paint(controls, ...size, wanted);
      jumped = still;
      drawnFor = picture;
      drawnAt = wanted;
      submitted = now;
    }
    const drawn = ready && sorting === null && sortedFor === view && drawnFor === picture && !painter.fence && wanted === 1 && !held && !gliding;
    if (drawn && !loading) root.dataset.state = "ready";
    asleep = drawn || !ready || root.dataset.state === "failed";
    if (!asleep) requestAnimationFrame(tick);
  }

  // After the GPU is done with a picture.
  function finish(now) {
    if (!submitted) return;
    pictureMs = now - submitted;
    if (first && (drawnAt < 1 || pictureMs > SLOW)) coarse = Math.min(1, Math.max(COARSEST, drawnAt * Math.min(1.3, Math.max(0.5, Math.sqrt(WANTED / pictureMs)))));
    submitted = 0;
    root.dataset.pictures = Number(root.dataset.pictures || 0) + 1;
    if (!first && (painter.count || !header.streamed)) {
      first = now - began;
      root.dataset.first = performance.now().toFixed(0);
      message.hidden = true;
      part("first")?.classList.add("hs-gone");
      if (whole) setTimeout(() => part("first")?.remove(), FADE);  // else prints show it
    }
    stats.textContent = `${painter.count.toLocaleString("en")} of ${header.splats.toLocaleString("en")} splats, ${news}${DRAW_CALLS} draw calls, `
      + `sort ${sortMs.toFixed(1)} ms, picture ${pictureMs.toFixed(0)} ms, ${Math.round(size[0] * drawnAt)}x${Math.round(size[1] * drawnAt)} px`;
  }

  // ---- what people do

  function touched() {
    moved = performance.now();
    wake();
  }
  const fly = flying(controls, touched);
  pointing(canvas, controls, touched, whole);

  function go(index) {
    current = (index + cameras.length) % cameras.length;
    list.value = current;
    if (still || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      controls.jump(cameras[current]);
      jumped = true;  // the order of elsewhere would show holes
    } else {
      controls.goTo(cameras[current], performance.now());
    }
    wake();
  }
  const toggle = (element, on = element.hidden) => { element.hidden = !on; };
  function picture() {  // of the view in full, as a file
    painter.paint(controls, ...size, 1);
    canvas.toBlob(blob => {
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${document.title || "scene"}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
  const fullScreen = () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen?.().catch(() => {});
  const ACTIONS = {
    hop: by => go(current + by), home: () => go(0), level: () => { controls.level(); touched(); }, capture: picture,
    toggle: what => what === "full" ? fullScreen() : toggle(part(what)), dismiss: () => toggle(part("help"), false),
  };
  (whole ? document : root).addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === list && event.code !== "Escape") return;
    const [action, ...what] = KEYS[event.code] || [];
    if (FLIGHT[event.code]) fly.down(event);
    else if (action && !(action === "hop" && cameras.length < 2)) ACTIONS[action](...what);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keyup", fly.up);
  window.addEventListener("blur", fly.stop);
  list.append(...cameras.map(({ name }, i) => new Option(name, i, false, i === current)));
  list.addEventListener("change", () => go(Number(list.value)));
  part("previous").addEventListener("click", () => go(current - 1));
  part("next").addEventListener("click", () => go(current + 1));
  part("picture").addEventListener("click", picture);
  part("full").addEventListener("click", fullScreen);
  part("keys").addEventListener("click", () => toggle(part("help")));
  for (const name of ["previous", "next", "list"]) part(name).hidden = cameras.length < 2;
  part("full").hidden = !root.requestFullscreen;
  part("bar").hidden = still;
  new ResizeObserver(wake).observe(canvas);
  if (whole) {
    window.addEventListener("hashchange", () => {
      const index = number(new URLSearchParams(location.hash.slice(1)).get("camera"));
      if (index !== null) go(index);
    });
    if (!still) canvas.focus();
  }
  wake();
  return { element: root, go, stop() { worker.terminate(); root.remove(); } };
}
