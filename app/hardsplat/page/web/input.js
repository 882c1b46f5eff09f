// Mouse, touch and keys -> Controls. FLIGHT and KEYS are those of hardsplat.tables.keys. `wake` is called after whatever changed the view.
"use strict";

const TURN = 0.005, NOTCH = 0.0012;  // radians a pixel; logarithm of the distance a pixel of the wheel

// Keys that are held to fly. step(seconds): moves along them; whether there were any.
function flying(controls, wake) {
  const held = new Set();
  let fast = false;
  return {
    down(event) { held.add(event.code); fast = event.shiftKey; wake(); },
    up(event) { held.delete(event.code); fast = event.shiftKey; },
    stop() { held.clear(); },
    step(seconds) {
      const sum = [...held].reduce((all, code) => plus(all, FLIGHT[code]), [0, 0, 0]), length = Math.hypot(...sum);
      if (length) controls.fly(sum.map(x => x / length), seconds * (fast ? 4 : 1));
      return held.size > 0;
    },
  };
}

// Left drag orbits, right drag looks, middle or shift drag pans; one finger orbits, two pan and zoom. whole: the viewer is all of its page.
function pointing(canvas, controls, wake, whole) {
  const pointers = new Map();
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1) };
  };
  canvas.addEventListener("pointerdown", event => {
    if (pointers.size === 2) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointermove", event => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = { x: event.clientX, y: event.clientY };
    if (pointers.size === 2) {
      const before = spread();
      pointers.set(event.pointerId, now);
      const after = spread();
      controls.pan(after.x - before.x, after.y - before.y, canvas.clientWidth, canvas.clientHeight);
      controls.dolly(before.apart / after.apart);
    } else {
      const x = now.x - last.x, y = now.y - last.y;
      pointers.set(event.pointerId, now);
      if (event.buttons & 4 || event.shiftKey) controls.pan(x, y, canvas.clientWidth, canvas.clientHeight);
      else if (event.buttons & 2) controls.look(TURN * x, TURN * y);
      else controls.orbit(TURN * x, TURN * y);
    }
    wake();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, event => pointers.delete(event.pointerId));
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    if (!whole && document.activeElement !== canvas) return;  // then it scrolls the page around
    event.preventDefault();  // two fingers apart on a touchpad come as a wheel with ctrl
    controls.dolly(Math.exp(NOTCH * Math.max(-400, Math.min(400, event.deltaY * (event.deltaMode ? 30 : event.ctrlKey ? 8 : 1)))));
    wake();
  }, { passive: false });
}
