() => {
  // Contrast of every piece of text with what is behind it (WCAG 2.2, relative luminance): [ratio, class or tag].
  const channel = (x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((x) => channel(Number(x)));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(", 0)") && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("main *, header *")].filter(
    (e) => e.offsetParent && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()),
  );
  return texts.map((e) => {
    const pair = [luminance(getComputedStyle(e).color), luminance(ground(e))];
    return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), e.className || e.tagName];
  });
}
