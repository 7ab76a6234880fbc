
"use strict";
const filter = document.getElementById("filter");
const found = document.getElementById("found");

filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let operations = 0;
  for (const group of document.querySelectorAll(".group")) {
    let shown = 0;
    for (const entry of group.querySelectorAll("details")) {
      const hit = words.every((word) => entry.dataset.words.includes(word));
      entry.hidden = !hit;
      if (hit) shown += 1;
      if (hit && entry.classList.contains("operation")) operations += 1;
    }
    group.hidden = shown === 0;
  }
  found.textContent = operations === 1 ? "1 operation" : operations + " operations";
});

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
  if (target.hidden) {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
  target.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();
