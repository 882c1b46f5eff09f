document.documentElement.classList.add("script");
for (const figure of document.querySelectorAll(".compare")) {
  const pair = figure.querySelector(".pair"), slider = figure.querySelector(".slider");
  const show = () => pair.style.setProperty("--cut", slider.value + "%");
  const follow = event => {
    const box = pair.getBoundingClientRect();
    slider.value = 100 * (event.clientX - box.left) / box.width;
    show();
  };
  slider.addEventListener("input", show);
  pair.addEventListener("pointerdown", event => { pair.setPointerCapture(event.pointerId); follow(event); event.preventDefault(); });
  pair.addEventListener("pointermove", event => event.buttons && follow(event));
  for (const choice of figure.querySelectorAll("select")) {
    choice.addEventListener("change", () => {
      const chosen = document.getElementById(choice.value), shown = pair.children[choice.dataset.side];
      shown.src = chosen.src;
      shown.alt = chosen.alt;
      figure.querySelectorAll(".ends span")[choice.dataset.side].textContent = choice.selectedOptions[0].text;
    });
  }
  show();
}
