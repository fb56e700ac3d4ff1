// Pagefind selects its texts and its index by the language of the page.
(() => {
  const language = document.documentElement.lang.split("-")[0];
  // Replace words of other translations by the words of the course (locales/synonyms.csv).
  const synonyms = (SYNONYMS[language] || []).map(([pattern, course]) => [
    new RegExp(/zh|ko/.test(language) ? pattern : `(?<!\\p{L})(?:${pattern})(?!\\p{L})`, "giu"),
    course,
  ]);
  const translate = (asked) =>
    synonyms.reduce((text, [pattern, course]) => text.replace(pattern, course), asked);

  // Segment Chinese queries into the likeliest words of the index (tools/site/search.py).
  const pages = new Map(language === "zh" ? Object.entries(INDEX_WORDS) : []);
  const longest = Math.max(1, ...[...pages.keys()].map((word) => word.length));
  const all = [...pages.values()].reduce((sum, count) => sum + count, 1);
  const cost = (word) => Math.log(all / (pages.get(word) || 0.5));

  const likeliest = (text) => {
    const best = Array(text.length).fill({ cost: Infinity }).concat([{ cost: 0, words: [] }]);
    for (let start = text.length - 1; start >= 0; start--) {
      for (let end = start + 1; end <= Math.min(start + longest, text.length); end++) {
        const word = text.slice(start, end);
        const whole = cost(word) + best[end].cost; // of the rest of the text
        if ((end === start + 1 || pages.has(word)) && whole < best[start].cost) {
          best[start] = { cost: whole, words: [word, ...best[end].words] };
        }
      }
    }
    return best[0].words;
  };
  const cut = (asked) =>
    pages.size
      ? asked.replace(/\p{Script=Han}+/gu, (text) => ` ${likeliest(text).join(" ")} `)
      : asked;

  window.addEventListener("DOMContentLoaded", () => {
    const search = new PagefindUI({
      element: "#mwl-search",
      showSubResults: true,
      showImages: false,
      autofocus: true,
      processTerm: (asked) => cut(translate(asked)),
    });
    const field = document.querySelector("#mwl-search input");
    field.setAttribute("aria-label", field.placeholder);
    const asked = new URLSearchParams(location.search).get("q");
    if (asked) search.triggerSearch(asked);
  });
})();
