(() => {
  const root = document.documentElement;
  const button = document.querySelector("[data-theme-button]");
  button?.addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("legal-rl-theme", root.dataset.theme); } catch { /* private pages keep no choice */ }
  });

  for (const tabs of document.querySelectorAll(".tabs")) {
    const buttons = [...tabs.querySelectorAll("button")];
    const choose = (chosen) => buttons.forEach((b) => {
      b.setAttribute("aria-selected", String(b === chosen));
      b.tabIndex = b === chosen ? 0 : -1;
      document.getElementById(b.getAttribute("aria-controls")).hidden = b !== chosen;
    });
    buttons.forEach((b, i) => {
      b.addEventListener("click", () => choose(b));
      b.addEventListener("keydown", (e) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!step) return;
        const next = buttons[(i + step + buttons.length) % buttons.length];
        choose(next); next.focus();
      });
    });
  }

  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg");
    const lines = [...figure.querySelectorAll(".hover")].map((g) => [g.dataset.name, JSON.parse(g.dataset.points)]);
    if (!svg || !lines.length) continue;
    const tip = figure.appendChild(Object.assign(document.createElement("div"), { className: "tip" }));
    svg.addEventListener("pointermove", (e) => {
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const x = (e.clientX - box.left) / scale;
      const near = lines.map(([name, points]) =>
        [name, points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a))]);
      tip.textContent = `step ${near[0][1][2]}: ` + near.map(([n, p]) => (n ? n + " " : "") + p[3]).join(", ");
      tip.style.display = "block";
      const host = figure.getBoundingClientRect();
      tip.style.left = `${near[0][1][0] * scale + box.left - host.left}px`;
      tip.style.top = `${near[0][1][1] * scale + box.top - host.top}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  }

  const search = document.querySelector("[data-search]");
  if (search) {
    const items = [...document.querySelectorAll(".traj")];
    const selects = [...document.querySelectorAll("[data-filter]")];
    const [least, most] = ["[data-least]", "[data-most]"].map((name) => document.querySelector(name));
    const count = document.querySelector("[data-count]");
    // Long files: what is inside a trajectory lies packed at the end of the page, and is unpacked when it is looked at.
    const packed = [...document.querySelectorAll("[data-packed]")];
    const blocks = new Map();
    const unpack = (number) => {
      if (!blocks.has(number)) blocks.set(number, (async () => {
        const bytes = Uint8Array.from(atob(packed[number].textContent.trim()), (c) => c.charCodeAt(0));
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        return JSON.parse(await new Response(stream).text());
      })());
      return blocks.get(number);
    };
    const fill = async (item) => {
      const body = item.querySelector(".body");
      if (item.dataset.block === undefined || body.childElementCount) return;
      body.innerHTML = (await unpack(Number(item.dataset.block)))[Number(item.dataset.place)].html;
    };
    items.forEach((item) => item.addEventListener("toggle", () => item.open && fill(item)));
    let texts = packed.length ? null : items.map((item) => item.dataset.text);
    const needTexts = async () => {
      if (texts === null) texts = (await Promise.all(packed.map((_, i) => unpack(i)))).flat().map((entry) => entry.text);
    };
    const within = (item) => {
      const total = item.dataset.total;
      return (!least?.value || (total !== "" && Number(total) >= Number(least.value))) &&
        (!most?.value || (total !== "" && Number(total) <= Number(most.value)));
    };
    const apply = async () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length) await needTexts();
      let shown = 0;
      for (const [i, item] of items.entries()) {
        const fits = words.every((w) => texts[i].includes(w)) && within(item) &&
          selects.every((s) => !s.value || item.dataset[s.dataset.filter] === s.value);
        item.hidden = !fits; shown += fits;
      }
      count.textContent = `${shown} of ${items.length}`;
    };
    search.addEventListener("input", apply);
    selects.forEach((s) => s.addEventListener("change", apply));
    [least, most].forEach((s) => s?.addEventListener("input", apply));
    document.querySelector("[data-open]")?.addEventListener("click", () => {
      const shown = items.filter((i) => !i.hidden), open = shown.some((i) => !i.open);
      shown.forEach((i) => { i.open = open; });
    });
    apply();
  }
})();
