
"use strict";
const filter = document.getElementById("filter");
const servedOnly = document.getElementById("served-only");
const found = document.getElementById("found");

function applyFilter() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let operations = 0;
  let served = 0;
  for (const group of document.querySelectorAll(".group")) {
    let shown = 0;
    for (const entry of group.querySelectorAll("details")) {
      const wanted = !(servedOnly.checked && entry.classList.contains("unserved"));
      const hit = wanted && words.every((word) => entry.dataset.words.includes(word));
      entry.hidden = !hit;
      if (hit) shown += 1;
      if (hit && entry.classList.contains("operation")) operations += 1;
      if (hit && entry.classList.contains("served")) served += 1;
    }
    group.hidden = shown === 0;
  }
  found.textContent = `${served} of ${operations} operations served here`;
}
filter.addEventListener("input", applyFilter);
servedOnly.addEventListener("input", applyFilter);

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
  if (target.hidden) {
    filter.value = "";
    servedOnly.checked = false;
    applyFilter();
  }
  target.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();
