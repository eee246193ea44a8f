// SPDX-License-Identifier: Apache-2.0
// Every page works without this script. It adds live parts, the key "/", menus that close, filters that fold on small screens, and forms that are sent on change, and texts that are copied.
"use strict";

// A live part has data-live, the address of its events. An event carries the part as the server has rendered it anew.
for (const part of document.querySelectorAll("[data-live]")) {
  const source = new EventSource(part.dataset.live);
  source.addEventListener("part", (event) => {
    const fresh = new DOMParser().parseFromString(event.data, "text/html");
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((d) => d.id));
    part.replaceChildren(...fresh.body.childNodes);
    for (const d of part.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = true;
  });
  source.addEventListener("end", () => source.close());
  addEventListener("pagehide", () => source.close());
}

// A log follows its end while the reader is there.
for (const log of document.querySelectorAll("[data-log]")) {
  const source = new EventSource(log.dataset.log);
  source.addEventListener("line", (event) => {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(event.data + "\n");
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  source.addEventListener("end", () => source.close());
  addEventListener("pagehide", () => source.close());
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !writing) {
    const box = document.getElementById("search");
    if (box) { event.preventDefault(); box.focus(); box.select(); }
  }
  if (event.key === "Escape") {
    const menu = event.target.closest("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  }
});

// A text that is shown to be taken elsewhere has a button that copies it. Browsers copy for pages of TLS and of their own machine only.
if (navigator.clipboard) for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// Where a filter stands above its list, it is folded until somebody wants to filter.
if (matchMedia("(max-width: 1240px)").matches) for (const d of document.querySelectorAll("details[data-fold]")) d.open = false;

// On a small screen the pages stand in a row that scrolls: it begins where the reader is.
const here = document.querySelector(".rail nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - (here.parentElement.clientWidth - here.offsetWidth) / 2;

// A menu closes when the reader goes on elsewhere.
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

for (const form of document.querySelectorAll("form[data-send]")) form.addEventListener("change", () => form.requestSubmit());
