"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const kept = (name, value) => {
    try { if (value === undefined) return sessionStorage.getItem(name); sessionStorage.setItem(name, value); } catch { /* private tabs keep nothing */ }
    return null;
  };
  let language = kept("language") || (navigator.language.startsWith("zh") || !navigator.language ? "zh" : "en");
  const t = (word) => WORDS[language][word] ?? word;
  const runs = [];
  let working = null;

  // Text only: nothing that came from a model or a corpus is ever parsed as HTML.
  const make = (tag, options = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
      else if (name === "text") element.textContent = value;
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };

  function translate() {
    document.documentElement.lang = language;
    for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
    for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
    $("question").placeholder = t("placeholder");
    for (const option of $("judge").options) option.textContent = option.value === "lawyer" ? t("judge_lawyer") : option.value;
    runs.forEach((run) => run.draw());
    if (said) say(said);
    drawList();
  }

  const headers = () => {
    const key = $("key").value.trim();
    return key ? { Authorization: `Bearer ${key}` } : {};
  };

  async function loadSettings() {
    try {
      const response = await fetch("/v1/settings", { headers: headers() });
      if (!response.ok) { if (response.status === 401) $("key-box").open = true; return; }
      const settings = await response.json();
      $("judge").replaceChildren(...settings.judges.map((name) => make("option", { value: name, text: name })));
      $("judge").value = settings.judge;
      $("turns").value = settings.max_turns;
      $("strict").checked = settings.strict;
      $("question").maxLength = settings.max_question_chars;
      translate();
    } catch { say("offline"); }
  }

  let said = "";
  const say = (word) => { said = word; $("said").textContent = t(word); };

  // ---- one question -------------------------------------------------------------------------------------------------

  class Run {
    constructor(question, asOf) {
      Object.assign(this, { question, asOf, steps: [], units: [], text: "", citations: [], state: "asking", notices: [], streamed: "" });
      this.element = make("article", { class: "run busy", tabindex: "-1" });
      this.chosen = false;
    }

    step(kind, data) {
      const step = { kind, ...data };
      this.steps.push(step);
      return step;
    }

    take(type, data) {
      const last = this.steps[this.steps.length - 1];
      if (type === "thought") {
        if (last && last.kind === "thought" && last.turn === data.turn) last.text += data.text;
        else this.step("thought", { turn: data.turn, text: data.text });
      } else if (type === "search") this.step("search", data);
      else if (type === "evidence") {
        if (last) last.result = data;
        for (const unit of data.units) if (!this.units.some((known) => known.id === unit.id)) this.units.push(unit);
      } else if (type === "correction") this.step("correction", data);
      else if (type === "draft") this.draft = data.text;
      else if (type === "answer_delta") this.streamed += data.text;
      else if (type === "answer") Object.assign(this, { text: data.text, streamed: "", finished: true, spoken: data.language });
      else if (type === "citations") this.citations = data.citations;
      else if (type === "done") Object.assign(this, { done: data, notices: data.notices, state: "done" });
      else if (type === "error") this.fail(data.message, data.code);
      this.draw();
    }

    fail(message, code) { Object.assign(this, { state: "failed", wrong: code ? `${message} (${code})` : message }); this.draw(); }

    draw() {
      const open = new Set([...this.element.querySelectorAll("details[open]")].map((d) => d.dataset.id));
      const parts = [make("h2", { text: this.question, lang: "zh" })];
      parts.push(make("ol", { class: "steps" }, ...this.steps.map((step) => this.drawStep(step, open))));
      if (this.draft) parts.push(make("h3", { text: t("draft") }), make("p", { class: "think", text: this.draft, lang: "zh" }));
      if (this.streamed || this.finished) parts.push(...this.drawAnswer());
      if (this.wrong) parts.push(make("p", { class: "wrong", role: "alert", text: `${t("failed")}: ${this.wrong}` }));
      if (this.state === "stopped") parts.push(make("p", { class: "soft", text: t("stopped") }));
      if (this.done) parts.push(this.drawFoot());
      this.element.className = this.state === "asking" ? "run busy" : "run";
      this.element.replaceChildren(...parts);
    }

    drawStep(step, open) {
      const turn = t("turn").replace("%s", step.turn + 1);
      if (step.kind === "thought") return make("li", {}, make("div", { class: "kind", text: `${turn} · ${t("thinking")}` }), make("div", { class: "think", text: step.text, lang: "zh" }));
      if (step.kind === "correction") return make("li", {}, make("div", { class: "kind", text: `${turn} · ${t("correction")}` }), make("div", { text: step.reason, lang: "zh" }));
      const wishes = ["intent", "circumstances", "charge"].filter((name) => step[name]).map((name) => `${t(name)}: ${step[name]}`);
      const found = step.result ? (step.result.units.length ? step.result.units.map((unit) => this.drawUnit(unit, open)) : [make("p", { class: "soft", text: t("nothing") })]) : [make("p", { class: "soft", text: `${t("searching")}…` })];
      return make("li", {}, make("div", { class: "kind", text: `${turn} · ${t("search")} · ${t(step.source)}` }), make("div", { class: "query", text: step.query, lang: "zh" }),
        wishes.length ? make("div", { class: "wish", text: wishes.join(" · "), lang: "zh" }) : null,
        step.result && step.result.status === "degraded" ? make("span", { class: "mark mid", text: t("degraded") }) : null, ...found);
    }

    drawUnit(unit, open) {
      const number = this.units.findIndex((known) => known.id === unit.id) + 1;
      const title = `[${number}] 《${unit.title.replace(/^《|》$/g, "")}》${unit.label || ""}`;
      const marks = [];
      if (unit.version_date) marks.push(make("span", { class: "mark", text: `${t("version")} ${unit.version_date}` }));
      if (unit.court_level) marks.push(make("span", { class: "mark", text: `${t("court")}: ${t(unit.court_level)}` }));
      if (unit.psi !== undefined && unit.psi !== null) marks.push(make("span", { class: "mark", text: `${t("severity")}: ${Math.round(unit.psi)}` }));
      if (unit.charges) marks.push(make("span", { class: "mark", text: `${t("charges")}: ${unit.charges.join("、")}` }));
      if (unit.generated) marks.push(make("span", { class: "mark mid", text: t("generated") }));
      for (const note of unit.notes || []) marks.push(make("span", { class: "mark", text: note, lang: "zh" }));
      return make("details", { class: "unit", "data-id": unit.id, open: open.has(unit.id) }, make("summary", { text: title, lang: "zh" }),
        make("div", { class: "marks" }, ...marks), make("div", { class: "law", text: unit.text, lang: "zh" }));
    }

    drawAnswer() {
      const notices = this.notices.length ? [make("ul", { class: "notices", "aria-label": t("notices") }, ...this.notices.map((n) => make("li", { text: n.text })))] : [];
      const answer = make("div", { class: "answer", lang: "zh" });
      answer.append(...(this.finished ? this.linked() : [this.streamed]));
      const cited = this.citations.length ? [make("h3", { text: t("citations") }), make("ul", { class: "cited" }, ...this.citations.map((c) => this.drawCitation(c)))] : [];
      return [make("h3", { text: t("answer") }), ...notices, answer, ...cited];
    }

    linked() {
      const letters = Array.from(this.text); // spans count characters, not UTF-16 units
      const pieces = [];
      let at = 0;
      for (const citation of this.citations) {
        const [start, end] = citation.span;
        if (start < at || end <= start) continue;
        pieces.push(letters.slice(at, start).join(""));
        pieces.push(make("button", { type: "button", class: `cite ${citation.status}`, text: letters.slice(start, end).join(""), title: t(citation.status), on: { click: () => this.open(citation) } }));
        at = end;
      }
      pieces.push(letters.slice(at).join(""));
      return pieces;
    }

    drawCitation(citation) {
      const tone = { verified: "good", not_found: "bad", not_in_force: "bad" }[citation.status] || "mid";
      const name = (citation.law ? `《${citation.law}》` : "") + citation.label;
      const button = citation.status === "not_found" || citation.status === "unresolved" ? make("span", { text: name, lang: "zh" })
        : make("button", { type: "button", text: name, lang: "zh", title: t("read_article"), on: { click: () => this.open(citation) } });
      return make("li", {}, make("span", { class: `mark ${tone}`, text: t(citation.status) }), button, citation.note ? make("span", { class: "soft", text: citation.note, lang: "zh" }) : null);
    }

    async open(citation) {
      const unit = this.units[(citation.evidence[0] || 0) - 1];
      const show = (title, note, text) => { $("article-title").textContent = title; $("article-note").textContent = note; $("article-text").textContent = text; };
      if (citation.kind !== "article" || !citation.law) {
        show(unit ? `《${unit.title}》${unit.label || ""}` : citation.label, citation.note || "", unit ? unit.text : "");
        $("article").showModal();
        return;
      }
      show(`《${citation.law}》${citation.label}`, t("loading"), "");
      $("article").showModal();
      const day = this.asOf ? `?as_of=${this.asOf}` : "";
      try {
        const response = await fetch(`/v1/articles/${encodeURIComponent(citation.law)}/${encodeURIComponent(citation.label)}${day}`, { headers: headers() });
        const body = await response.json();
        if (response.ok) show(`《${body.law_title}》${body.article_label}`, `${t("version")} ${body.version_date}`, body.text);
        else show(`《${citation.law}》${citation.label}`, body.error.message, "");
      } catch { show(`《${citation.law}》${citation.label}`, t("offline"), ""); }
    }

    drawFoot() {
      const d = this.done;
      const numbers = `${d.searches} ${t("searches")} · ${d.usage.completion_tokens} ${t("tokens")} · ${d.timings.total_s.toFixed(1)} ${t("seconds")}`;
      const copy = make("button", { type: "button", text: t("copy"), on: { click: async () => {
        try { await navigator.clipboard.writeText(this.markdown()); } catch { select(this.markdown()); }
        copy.textContent = t("copied"); say("copied");
      } } });
      const foot = make("div", { class: "foot" }, copy, make("span", { text: numbers }));
      return d.disclaimer ? make("div", {}, make("p", { class: "disclaimer", text: d.disclaimer }), foot) : foot;
    }

    markdown() {
      const lines = [`# ${this.question}`, ""];
      for (const step of this.steps) {
        if (step.kind === "thought") lines.push(`> ${step.text.replace(/\n/g, "\n> ")}`, "");
        if (step.kind === "search") lines.push(`- **${t("search")} · ${t(step.source)}**: ${step.query}`, "");
      }
      lines.push(`## ${t("answer")}`, "", this.text, "");
      if (this.citations.length) lines.push(`## ${t("citations")}`, "", ...this.citations.map((c) => `- ${t(c.status)}: ${c.law ? `《${c.law}》` : ""}${c.label}${c.note ? ` (${c.note})` : ""}`), "");
      if (this.units.length) lines.push(`## ${t("evidence")}`, "", ...this.units.map((u, i) => `${i + 1}. 《${u.title.replace(/^《|》$/g, "")}》${u.label || ""} (\`${u.id}\`)\n\n   ${u.text.replace(/\n/g, "\n   ")}`), "");
      if (this.done && this.done.disclaimer) lines.push(`*${this.done.disclaimer}*`, "");
      return lines.join("\n");
    }
  }

  function select(text) { // where the clipboard is not allowed
    const area = make("textarea", { "aria-hidden": "true" });
    area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
  }

  async function* messages(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value.replace(/\r\n/g, "\n");
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join("\n");
        if (field("data")) yield [field("event"), JSON.parse(field("data"))];
      }
    }
  }

  async function ask() {
    const question = $("question").value.trim();
    if (!question || working) return;
    const run = new Run(question, $("as_of").value);
    const wish = { question, stream: true, strict: $("strict").checked };
    if ($("judge").value) wish.judge = $("judge").value;
    if (run.asOf) wish.as_of = run.asOf;
    if (Number($("turns").value) >= 1) wish.max_turns = Number($("turns").value);
    runs.unshift(run);
    runs.forEach((other) => { other.chosen = false; });
    run.draw(); show([run]); drawList(); say("asking");
    working = new AbortController();
    $("stop").hidden = false; $("send").disabled = true;
    try {
      const response = await fetch("/v1/answers", { method: "POST", signal: working.signal, headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(wish) });
      if (!response.ok) {
        const body = await response.json().catch(() => ({ error: { message: `HTTP ${response.status}` } }));
        if (response.status === 401) $("key-box").open = true;
        run.fail(body.error.message, body.error.code);
      } else {
        for await (const [type, data] of messages(response.body)) run.take(type, data);
        if (run.state === "asking") run.fail(t("broke"));
      }
    } catch (error) {
      if (error.name === "AbortError") { run.state = "stopped"; run.draw(); } else run.fail(t("offline"));
    }
    working = null;
    $("stop").hidden = true; $("send").disabled = false;
    say(run.state); drawList();
  }

  // ---- past runs and comparison ---------------------------------------------------------------------------------------

  function show(chosen) {
    $("runs").className = chosen.length > 1 ? "two" : "";
    $("runs").replaceChildren(...chosen.map((run) => run.element));
  }

  function drawList() {
    $("past").hidden = runs.length < 2;
    $("list").replaceChildren(...runs.map((run, i) => {
      const box = make("input", { type: "checkbox", id: `run-${i}`, "aria-label": `${t("compare")}: ${run.question}` });
      box.checked = run.chosen;
      box.addEventListener("change", () => {
        run.chosen = box.checked;
        const chosen = runs.filter((other) => other.chosen);
        while (chosen.length > 2) chosen.pop().chosen = false;
        show(chosen.length ? chosen : [runs[0]]); drawList();
        $(`run-${i}`).focus();
      });
      return make("li", {}, make("label", {}, box, make("span", { text: `${run.question.slice(0, 60)} · ${t(run.state)}`, lang: "zh" })));
    }));
  }

  $("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  $("question").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && working && !$("article").open) working.abort(); });
  $("stop").addEventListener("click", () => working && working.abort());
  $("language").addEventListener("click", () => { language = language === "zh" ? "en" : "zh"; kept("language", language); translate(); });
  const theme = (name) => { document.documentElement.dataset.theme = name; kept("theme", name); };
  theme(kept("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("key").value = kept("key") || "";
  $("key-form").addEventListener("submit", (event) => { event.preventDefault(); $("key").blur(); });
  $("key").addEventListener("change", () => { kept("key", $("key").value.trim()); loadSettings(); });
  translate();
  loadSettings();
})();
