// Starts the viewers of a page that holds their splats.
"use strict";

function startHeld(root) {
  const text = name => root.querySelector(`.hs-${name}`).textContent, header = JSON.parse(text("header"));
  const shaders = Object.fromEntries([...root.querySelectorAll(".hs-shader")].map(s => [s.dataset.name, s.textContent.trim()]));
  startViewer(root, { header, shaders, worker: text("worker"), first: { header, text: text("data") } });
  root.querySelector(".hs-data").remove();
}

for (const root of document.querySelectorAll(".hs")) {
  const start = root.querySelector(".hs-start");
  if (!start) {
    startHeld(root);
    continue;
  }
  start.hidden = false;
  start.addEventListener("click", () => {
    start.remove();
    root.querySelector(".hs-message").hidden = false;
    startHeld(root);
    root.querySelector(".hs-canvas").focus();
  });
}
