// SPDX-License-Identifier: Apache-2.0
// Shows the findings that stand in the page as data. Texts of findings only ever become text nodes and attributes that
// hold no code; nothing is fetched.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // Places in a finding, see appendPageEntry.
  const SEVERITY = 0, NAME = 1, CATEGORY = 2, LOCATION = 3, DESCRIPTION = 4, MITIGATION = 5, REFERENCES = 6, ATTRIBUTES = 7, AT = 8, STATE = 9, ID = 10, EXCEPTION = 11, EXCEPTED = 12;
  const words = ["High", "Medium", "Low", "Informational"];
  const ROW = 42;
  const number = new Intl.NumberFormat("en");
  const byId = (id) => document.getElementById(id);
  const svgNS = "http://www.w3.org/2000/svg";

  function el(tag, attributes, ...children) {
    const node = tag.startsWith("svg:") ? document.createElementNS(svgNS, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  }

  const filter = { severities: new Set(), category: "", location: "", state: "", text: "" };
  let order = { by: SEVERITY, down: false };
  let shown = [];
  let current = -1;
  let opened = null;

  // What is searched for each finding is put together when it is first needed.
  const haystacks = new Array(data.findings.length);
  function haystack(i) {
    if (haystacks[i] === undefined) {
      const f = data.findings[i];
      haystacks[i] = [f[NAME], f[CATEGORY], f[LOCATION], f[DESCRIPTION], f[MITIGATION], f[REFERENCES].join(" "), f[ID], f[ATTRIBUTES] ? JSON.stringify(f[ATTRIBUTES]) : ""].join("\n").toLowerCase();
    }
    return haystacks[i];
  }

  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  // Comparing by place in the sorted texts is far faster than comparing texts each time.
  const ranks = {};
  function rankOf(column) {
    if (!ranks[column]) {
      const texts = [...new Set(data.findings.map((f) => f[column]))].sort(collator.compare);
      const place = new Map(texts.map((text, i) => [text, i]));
      ranks[column] = data.findings.map((f) => place.get(f[column]));
    }
    return ranks[column];
  }

  function apply() {
    const terms = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    data.findings.forEach((f, i) => {
      if (filter.severities.size && !filter.severities.has(f[SEVERITY])) return;
      if (filter.category && f[CATEGORY] !== filter.category) return;
      if (filter.location && f[LOCATION] !== filter.location) return;
      if (filter.state && f[STATE] !== filter.state) return;
      if (terms.length && !terms.every((t) => haystack(i).includes(t))) return;
      found.push(i);
    });
    const sign = order.down ? -1 : 1;
    const severity = (i) => data.findings[i][SEVERITY];
    const excepted = (i) => data.findings[i][EXCEPTED] ? 1 : 0; // these come last, in whatever order
    if (order.by === SEVERITY) {
      found.sort((a, b) => excepted(a) - excepted(b) || sign * (severity(a) - severity(b)) || a - b);
    } else {
      const rank = rankOf(order.by);
      found.sort((a, b) => excepted(a) - excepted(b) || sign * (rank[a] - rank[b]) || severity(a) - severity(b) || a - b);
    }
    shown = found;
    current = opened === null ? -1 : shown.indexOf(opened);
    byId("scroll").scrollTop = 0;
    byId("space").style.height = Math.max(shown.length * ROW, 1) + "px";
    byId("count").textContent = shown.length === data.findings.length ? number.format(shown.length) + " findings" : number.format(shown.length) + " of " + number.format(data.findings.length) + " findings";
    drawFilters();
    drawRows();
  }

  // Only the rows in sight exist.
  function drawRows() {
    const scroll = byId("scroll"), space = byId("space");
    const from = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 8);
    const to = Math.min(shown.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / ROW) + 8);
    const rows = [];
    for (let place = from; place < to; place++) {
      const f = data.findings[shown[place]];
      const row = el("div", { class: "row item s" + f[SEVERITY] + (place === current ? " on" : "") + (f[EXCEPTED] ? " excepted" : ""), role: "row", id: "row-" + place, "data-place": place, "aria-rowindex": place + 2 },
        el("span", { role: "cell", class: "badge" }, words[f[SEVERITY]]),
        el("span", { role: "cell", title: f[NAME] }, f[NAME], f[STATE] === "new" ? el("span", { class: "fresh" }, "new") : null, f[EXCEPTED] ? el("span", { class: "fresh" }, "excepted") : null),
        el("span", { role: "cell", class: "muted", title: f[CATEGORY] }, f[CATEGORY]),
        el("span", { role: "cell", class: "muted", title: f[LOCATION] }, f[LOCATION]));
      row.style.top = place * ROW + "px";
      rows.push(row);
    }
    if (!shown.length) rows.push(el("p", { class: "empty row" }, data.total ? "No finding matches." : "Nothing was found."));
    space.replaceChildren(...rows);
    byId("head").style.paddingRight = 16 + scroll.offsetWidth - scroll.clientWidth + "px"; // the rows have a scroll bar, the head has none
    if (!shown.length) space.style.height = "60px";
    scroll.setAttribute("aria-activedescendant", current < 0 ? "" : "row-" + current);
  }

  function move(to) {
    if (!shown.length) return;
    current = Math.min(Math.max(to, 0), shown.length - 1);
    const scroll = byId("scroll"), top = current * ROW;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    else if (top + ROW > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW - scroll.clientHeight;
    if (opened !== null) open(current);
    drawRows();
  }

  function open(place) {
    current = place;
    opened = shown[place];
    const f = data.findings[opened];
    const parts = [];
    const part = (title, node) => parts.push(el("h3", {}, title), node);
    if (f[EXCEPTION]) part("Exception", el("p", {}, f[EXCEPTION]));
    if (f[LOCATION]) part("Location", el("p", {}, f[LOCATION]));
    if (f[DESCRIPTION]) part("Description", el("p", {}, f[DESCRIPTION]));
    if (f[MITIGATION]) part("Mitigation", el("p", {}, f[MITIGATION]));
    if (f[REFERENCES].length) {
      const list = el("ul");
      for (let i = 0; i < f[REFERENCES].length; i += 2) list.append(el("li", {}, f[REFERENCES][i] + ": ", link(f[REFERENCES][i + 1])));
      part("References", list);
    }
    if (typeof f[ATTRIBUTES] === "number") part("Attributes", el("p", { class: "muted" }, "They are too long for this page (" + number.format(f[ATTRIBUTES]) + " bytes). The CSV and findings.json have them."));
    else if (f[ATTRIBUTES]) part("Attributes", attributes(f[ATTRIBUTES]));
    part("Finding", el("p", { class: "muted" }, f[ID] + (f[AT] ? "\nseen " + f[AT] : "") + (f[STATE] ? "\n" + (f[STATE] === "new" ? "new since the previous run" : "known from the previous run") : "")));
    const detail = byId("detail");
    detail.replaceChildren(
      el("div", { class: "tools" }, el("span", { class: "badge s" + f[SEVERITY] }, words[f[SEVERITY]]),
        button("Previous", () => move(current - 1)), button("Next", () => move(current + 1)), button("Close", close)),
      el("h2", {}, f[NAME]), el("span", { class: "muted" }, f[CATEGORY]), ...parts);
    detail.hidden = false;
    detail.scrollTop = 0;
  }

  // Addresses are shown and not linked: nobody knows where a finding's lead.
  function link(text) { return document.createTextNode(text); }

  function attributes(map) {
    const list = el("dl");
    for (const [key, value] of Object.entries(map)) {
      const plain = value === null || typeof value !== "object";
      list.append(el("dt", {}, key), el("dd", {}, plain ? String(value) : el("pre", {}, JSON.stringify(value, null, 2))));
    }
    return list;
  }

  function close() {
    opened = null;
    byId("detail").hidden = true;
    byId("scroll").focus();
    drawRows();
  }

  function button(text, action) {
    const b = el("button", { type: "button", class: "quiet" }, text);
    b.addEventListener("click", action);
    return b;
  }

  // Filters.
  function toggleSeverity(s) {
    if (!filter.severities.delete(s)) filter.severities.add(s);
    apply();
  }
  function toggle(name, value) {
    filter[name] = filter[name] === value ? "" : value;
    apply();
  }
  function drawFilters() {
    document.querySelectorAll("[data-severity]").forEach((n) => mark(n, filter.severities.has(Number(n.dataset.severity))));
    document.querySelectorAll("[data-group]").forEach((n) => mark(n, filter[n.dataset.group] === n.dataset.value));
    byId("category").value = filter.category;
    byId("state").value = filter.state;
    const chips = [];
    const chip = (text, remove) => {
      const c = el("button", { type: "button", class: "chip", title: text, "aria-label": "Remove filter " + text }, text + "  ×");
      c.addEventListener("click", () => { remove(); apply(); });
      chips.push(c);
    };
    for (const s of [...filter.severities].sort()) chip(words[s], () => filter.severities.delete(s));
    if (filter.category) chip("Category: " + filter.category, () => { filter.category = ""; });
    if (filter.location) chip("Location: " + filter.location, () => { filter.location = ""; });
    byId("chips").replaceChildren(...chips);
    byId("reset").hidden = !(chips.length || filter.text || filter.state);
  }
  function mark(node, on) {
    node.classList.toggle("on", on);
    node.setAttribute("aria-pressed", on);
  }

  // Charts.
  function pick(node, action) {
    node.addEventListener("click", action);
    node.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") { e.preventDefault(); action(); }
    });
    return node;
  }

  function donut() {
    const at = byId("chart-severity");
    if (!data.total) return at.append(el("p", { class: "empty" }, "Nothing was found."));
    const svg = el("svg:svg", { viewBox: "0 0 320 300", role: "group", "aria-label": "Findings by severity" });
    const cx = 160, cy = 122, outer = 108, inner = 70;
    let angle = -Math.PI / 2;
    data.severities.forEach((n, s) => {
      if (!n) return;
      const share = n / data.total, end = angle + Math.max(share, 0.004) * 2 * Math.PI;
      const shape = share > 0.9999 ? ring(cx, cy, outer, inner) : slice(cx, cy, outer, inner, angle, end);
      const percent = share < 0.01 ? "less than 1" : Math.round(share * 100);
      const g = el("svg:g", { class: "pick", tabindex: 0, role: "button", "data-severity": s, "aria-label": words[s] + ": " + n },
        el("svg:path", { d: shape, class: "s" + s, "fill-rule": "evenodd" }), el("svg:title", {}, words[s] + ": " + number.format(n) + " (" + percent + " %)"));
      svg.append(pick(g, () => toggleSeverity(s)));
      angle = angle + share * 2 * Math.PI;
    });
    svg.append(el("svg:text", { x: cx, y: cy + 6, "text-anchor": "middle", class: data.total < 1e6 ? "big" : "big long" }, number.format(data.total)),
      el("svg:text", { x: cx, y: cy + 28, "text-anchor": "middle", class: "soft" }, data.total === 1 ? "finding" : "findings"));
    data.severities.forEach((n, s) => {
      const x = 4 + (s % 2) * 134, y = 262 + Math.floor(s / 2) * 24;
      svg.append(el("svg:rect", { x, y: y - 10, width: 11, height: 11, rx: 3, class: "s" + s }), el("svg:text", { x: x + 18, y }, words[s] + " " + number.format(n)));
    });
    at.append(svg);
  }
  function point(cx, cy, r, a) { return (cx + r * Math.cos(a)).toFixed(2) + " " + (cy + r * Math.sin(a)).toFixed(2); }
  function slice(cx, cy, outer, inner, from, to) {
    const large = to - from > Math.PI ? 1 : 0;
    return "M" + point(cx, cy, outer, from) + " A" + outer + " " + outer + " 0 " + large + " 1 " + point(cx, cy, outer, to) +
      " L" + point(cx, cy, inner, to) + " A" + inner + " " + inner + " 0 " + large + " 0 " + point(cx, cy, inner, from) + " Z";
  }
  function ring(cx, cy, outer, inner) {
    return slice(cx, cy, outer, inner, 0, Math.PI) + slice(cx, cy, outer, inner, Math.PI, 2 * Math.PI);
  }

  function bars(id, name, groups) {
    const at = byId(id);
    if (!groups.length) return at.append(el("p", { class: "empty" }, "No finding has one."));
    const step = 25, width = 490, left = 192, right = 70;
    const totals = groups.map((g) => g.counts.reduce((a, b) => a + b, 0));
    // The sum of the others is no measure for the rest; its bar ends where the room does.
    const most = Math.max(...totals.filter((n, i) => groups[i].name), 1);
    const svg = el("svg:svg", { viewBox: "0 0 " + width + " " + groups.length * step, role: "group", "aria-label": "Findings by " + name });
    groups.forEach((g, i) => {
      const y = i * step;
      const text = g.name || "(others)";
      const can = Boolean(g.name);
      const node = el("svg:g", can ? { class: "pick", tabindex: 0, role: "button", "data-group": name, "data-value": g.name, "aria-label": text + ": " + totals[i] } : {},
        el("svg:rect", { x: 0, y, width, height: step - 2, rx: 5, class: "area" }),
        el("svg:text", { x: 6, y: y + 17, class: can ? "" : "soft" }, fit(text, 25)),
        el("svg:rect", { x: left, y: y + 6, width: width - left - right, height: 13, rx: 3, class: "track" }));
      let x = left;
      g.counts.forEach((n, s) => {
        if (!n) return;
        const w = (n / Math.max(most, totals[i])) * (width - left - right);
        node.append(el("svg:rect", { x: x.toFixed(2), y: y + 6, width: Math.max(w, 1.5).toFixed(2), height: 13, rx: 2, class: "s" + s }));
        x += w;
      });
      node.append(el("svg:text", { x: width - right + 8, y: y + 17, class: "soft" }, number.format(totals[i])),
        el("svg:title", {}, text + "\n" + g.counts.map((n, s) => (n ? words[s] + ": " + number.format(n) : "")).filter(Boolean).join("\n")));
      svg.append(can ? pick(node, () => toggle(name, g.name)) : node);
    });
    at.append(svg);
  }
  // The end of an address tells more than its middle.
  function fit(text, most) {
    const letters = [...text];
    if (letters.length <= most) return text;
    return letters.slice(0, most - 10).join("") + "…" + letters.slice(-9).join("");
  }

  // What stands around.
  function about() {
    const s = data.scan, p = byId("about");
    p.append("Scan " + s.name + " in " + s.namespace + ", type " + s.type);
    if (s.finished) p.append(", finished " + s.finished.replace("T", " ").replace("Z", " UTC"));
    if (s.parameters.length) p.append("  ", el("code", {}, s.parameters.join(" ").slice(0, 400)));
    const note = byId("note");
    if (data.findings.length < data.total) {
      note.textContent = "This page shows the first " + number.format(data.findings.length) + " of " + number.format(data.total) + " findings, the worst first. Cards and charts count all; " +
        (data.files.some((f) => f[0] === "csv") ? "report.csv beside this page has all." : "findings.json has all.");
      note.hidden = false;
    }
    if (data.files.length) byId("foot").append("Beside this page: " + data.files.map((f) => f[1]).join(", ") + ". ");
    byId("foot").append("This page holds everything it shows and asks the network for nothing.");
  }

  function cards() {
    const all = data.severities.map((n, s) => {
      const c = el("button", { type: "button", class: "card s" + s, "data-severity": s }, el("b", {}, number.format(n)), el("span", {}, words[s]));
      c.addEventListener("click", () => toggleSeverity(s));
      return c;
    });
    if (data.excepted) all.push(el("div", { class: "card" }, el("b", {}, number.format(data.excepted)), el("span", {}, "Excepted")));
    if (data.compared) {
      const c = el("button", { type: "button", class: "card", "data-group": "state", "data-value": "new" }, el("b", {}, number.format(data.new)), el("span", {}, "New since the last run"));
      c.addEventListener("click", () => toggle("state", "new"));
      all.push(c, el("div", { class: "card" }, el("b", {}, number.format(data.fixed)), el("span", {}, "Fixed since the last run")));
      byId("state").hidden = false;
    }
    byId("cards").append(...all);
  }

  function heads() {
    const head = byId("head");
    const columns = [["Severity", SEVERITY], ["Name", NAME], ["Category", CATEGORY], ["Location", LOCATION]];
    const draw = () => head.replaceChildren(...columns.map(([text, by]) => {
      const on = order.by === by;
      const b = el("button", { type: "button" }, text + (on ? (order.down ? "  ▼" : "  ▲") : ""));
      b.addEventListener("click", () => { order = { by, down: on && !order.down }; draw(); apply(); head.children[columns.findIndex((c) => c[1] === by)].firstChild.focus(); });
      return el("span", { role: "columnheader", "aria-sort": on ? (order.down ? "descending" : "ascending") : "none" }, b);
    }));
    draw();
  }

  function options() {
    const names = [...new Set(data.findings.map((f) => f[CATEGORY]))].sort(collator.compare);
    byId("category").append(el("option", { value: "" }, "All categories"), ...names.map((n) => el("option", { value: n }, n)));
  }

  function theme() {
    const b = byId("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    const draw = () => { b.textContent = isDark() ? "Light" : "Dark"; };
    b.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; draw(); });
    dark.addEventListener("change", draw);
    draw();
  }

  function listen() {
    let timer = 0, frame = 0;
    byId("search").addEventListener("input", (e) => {
      clearTimeout(timer);
      timer = setTimeout(() => { filter.text = e.target.value; apply(); }, 120);
    });
    byId("category").addEventListener("change", (e) => { filter.category = e.target.value; apply(); });
    byId("state").addEventListener("change", (e) => { filter.state = e.target.value; apply(); });
    byId("reset").addEventListener("click", () => {
      filter.severities.clear();
      Object.assign(filter, { category: "", location: "", state: "", text: "" });
      byId("search").value = "";
      apply();
    });
    const scroll = byId("scroll");
    scroll.addEventListener("scroll", () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(drawRows); });
    addEventListener("resize", drawRows);
    byId("space").addEventListener("click", (e) => {
      const row = e.target.closest("[data-place]");
      if (row) { open(Number(row.dataset.place)); drawRows(); }
    });
    scroll.addEventListener("keydown", (e) => {
      const page = Math.max(1, Math.floor(scroll.clientHeight / ROW) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      if (e.key in steps) { e.preventDefault(); move(current + steps[e.key]); }
      if (e.key === "Enter" && current >= 0) { open(current); drawRows(); }
    });
    addEventListener("keydown", (e) => { if (e.key === "Escape" && opened !== null) close(); });
    addEventListener("beforeprint", () => { byId("scroll").scrollTop = 0; });
  }

  document.title = data.scan.title;
  theme();
  about();
  cards();
  donut();
  bars("chart-category", "category", data.categories);
  bars("chart-location", "location", data.locations);
  heads();
  options();
  listen();
  byId("main").hidden = false;
  apply();
})();
