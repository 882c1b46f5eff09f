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
  // Drawn as soon as it is in sight, which is sharper than its picture; mouse and touch scroll the page until it is pressed.
  let begun = false;
  const begin = () => begun || (begun = true, seen.disconnect(), startHeld(root));
  const seen = new IntersectionObserver(entries => entries.some(entry => entry.isIntersecting) && begin());
  seen.observe(root);
  root.classList.add("hs-waits");
  start.hidden = false;
  start.addEventListener("click", () => {
    start.remove();
    root.classList.remove("hs-waits");
    begin();
    root.querySelector(".hs-canvas").focus();
  });
}
