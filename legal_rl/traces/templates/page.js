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
    const count = document.querySelector("[data-count]");
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const item of items) {
        const text = item.dataset.text;
        const fits = words.every((w) => text.includes(w)) &&
          selects.every((s) => !s.value || item.dataset[s.dataset.filter] === s.value);
        item.hidden = !fits; shown += fits;
      }
      count.textContent = `${shown} of ${items.length}`;
    };
    search.addEventListener("input", apply);
    selects.forEach((s) => s.addEventListener("change", apply));
    document.querySelector("[data-open]")?.addEventListener("click", () => {
      const shown = items.filter((i) => !i.hidden), open = shown.some((i) => !i.open);
      shown.forEach((i) => { i.open = open; });
    });
    apply();
  }
})();
