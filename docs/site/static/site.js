// SPDX-License-Identifier: Apache-2.0
// Search, theme, versions and the menu of small screens. Pages are complete without it. Nothing is asked of any other server, and the index
// is a script, so that all of it works from a disk, too.
(() => {
  "use strict";
  const page = document.documentElement;
  const root = page.dataset.root;
  const $ = (id) => document.getElementById(id);

  // Theme: that of the system, until somebody presses the button.
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const dark = () => (page.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const themed = () => { $("theme").textContent = dark() ? "Light" : "Dark"; $("theme").setAttribute("aria-label", dark() ? "Light theme" : "Dark theme"); };
  if (stored()) page.dataset.theme = stored();

  const start = () => {
    page.classList.add("scripted");
    themed();
    for (const hidden of [$("theme"), $("open"), document.querySelector(".find")]) hidden.hidden = false;
    $("theme").addEventListener("click", () => {
      page.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", page.dataset.theme); } catch { /* the choice lasts as long as the page */ }
      themed();
    });
    $("open").addEventListener("click", () => $("open").setAttribute("aria-expanded", String($("menu").classList.toggle("open"))));
    document.querySelector("#menu [aria-current]")?.scrollIntoView({ block: "center" });
    scrollTo(0, scrollY && !location.hash ? 0 : scrollY);
    versions();
    search();
  };

  // Versions: the list lies beside all of them, so old pages know of new versions.
  const versions = () => {
    const list = window.scanyardVersions || [];
    if (!list.length) return;
    const select = $("versions");
    for (const v of list) select.add(new Option(v, v, false, v === page.dataset.version));
    select.closest("label").hidden = false;
    select.addEventListener("change", () => {
      const there = location.pathname.split("/" + page.dataset.version + "/").pop();
      // A page that the other version lacks leads to its beginning.
      const to = root + "../" + select.value + "/";
      const go = (path) => { location.href = to + path; };
      if (location.protocol === "file:") { go("index.html"); return; }
      fetch(to + there, { method: "HEAD" }).then((r) => go(r.ok ? there : "index.html"), () => go("index.html"));
    });
  };

  const search = () => {
    const field = $("search"), hits = $("hits");
    let index = null, asked = null, chosen = -1;
    const load = () => {
      asked ||= new Promise((resolve) => {
        const script = document.createElement("script");
        script.src = root + "search-index.js";
        script.onload = () => {
          index = window.scanyardIndex.map(([path, title, heading, text]) => ({ path, title, heading, text, lower: [heading.toLowerCase(), title.toLowerCase(), text.toLowerCase()] }));
          resolve();
        };
        document.head.append(script);
      });
      return asked;
    };
    const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
    // A word counts most in a heading, then in a title, then in the text; at the beginning of a word more than within one.
    const weigh = (entry, all) => {
      let sum = 0;
      for (const word of all) {
        let best = 0;
        entry.lower.forEach((text, i) => {
          const at = text.indexOf(word);
          if (at < 0) return;
          const begins = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "u").test(text);
          best = Math.max(best, [12, 6, 2][i] * (begins ? 2 : 1) + (i < 2 ? 8 * word.length / text.length : 0));
        });
        if (!best) return 0;
        sum += best;
      }
      return sum;
    };
    const marked = (text, all) => {
      const out = document.createDocumentFragment();
      const lower = text.toLowerCase();
      for (let at = 0; at < text.length;) {
        const next = all.map((w) => [lower.indexOf(w, at), w.length]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0])[0];
        if (!next) { out.append(text.slice(at)); break; }
        const mark = document.createElement("mark");
        mark.textContent = text.slice(next[0], next[0] + next[1]);
        out.append(text.slice(at, next[0]), mark);
        at = next[0] + next[1];
      }
      return out;
    };
    const excerpt = (entry, all) => {
      const at = Math.max(0, Math.min(...all.map((w) => entry.lower[2].indexOf(w)).map((i) => (i < 0 ? Infinity : i))) - 50);
      const from = Number.isFinite(at) ? entry.text.lastIndexOf(" ", at) + 1 : 0;
      const to = entry.text.length > from + 150 ? entry.text.lastIndexOf(" ", from + 150) : entry.text.length;
      return (from ? "… " : "") + entry.text.slice(from, to) + (to < entry.text.length ? " …" : "");
    };
    const close = () => { hits.hidden = true; chosen = -1; field.setAttribute("aria-expanded", "false"); field.removeAttribute("aria-activedescendant"); };
    const choose = (n) => {
      const all = [...hits.querySelectorAll("a")];
      if (!all.length) return;
      chosen = (n + all.length) % all.length;
      all.forEach((a, i) => a.setAttribute("aria-selected", String(i === chosen)));
      all[chosen].scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", all[chosen].id);
    };
    const show = async () => {
      const all = words(field.value);
      if (!all.length) { close(); return; }
      await load();
      if (words(field.value).join(" ") !== all.join(" ")) return; // more was typed meanwhile
      const found = index.map((entry) => ({ entry, weight: weigh(entry, all) })).filter((h) => h.weight > 0).sort((a, b) => b.weight - a.weight);
      hits.replaceChildren(...found.slice(0, 20).map(({ entry }, i) => {
        const a = document.createElement("a"), b = document.createElement("b"), where = document.createElement("span"), text = document.createElement("span");
        a.href = root + entry.path;
        a.id = "hit-" + i;
        a.setAttribute("role", "option");
        a.setAttribute("aria-selected", "false");
        b.append(marked(entry.heading, all));
        a.append(b);
        if (entry.heading !== entry.title) { where.className = "where"; where.append(entry.title); a.append(where); }
        text.append(marked(excerpt(entry, all), all));
        a.append(text);
        return a;
      }));
      if (!found.length) {
        const none = document.createElement("p");
        none.textContent = "Nothing has all of these words.";
        hits.append(none);
      }
      $("told").textContent = found.length === 1 ? "1 result" : found.length + " results";
      hits.hidden = false;
      chosen = -1;
      field.setAttribute("aria-expanded", "true");
    };
    field.addEventListener("focus", load);
    field.addEventListener("input", show);
    field.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); choose(chosen + (e.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1)); }
      if (e.key === "Enter") (hits.querySelectorAll("a")[Math.max(chosen, 0)])?.click();
      if (e.key === "Escape") { field.value = ""; close(); field.blur(); }
    });
    hits.addEventListener("click", close);
    document.addEventListener("click", (e) => { if (!e.target.closest(".find")) close(); });
    // Browsers have a search of their own on the key's way down; the field is not to get the key.
    const slash = (e) => e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.matches("input, select, textarea");
    document.addEventListener("keydown", (e) => { if (slash(e)) e.preventDefault(); });
    document.addEventListener("keyup", (e) => { if (slash(e)) field.focus(); });
  };

  start();
})();
