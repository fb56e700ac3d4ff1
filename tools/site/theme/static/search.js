// Pagefind takes its words, and what it searches in, from the language of the page.
(() => {
  // What is asked in Chinese is cut into the fewest words that the index has: tools/site/search.py.
  const words = typeof INDEX_WORDS === "undefined" ? [] : INDEX_WORDS.split(" ");
  const known = new Set(words);
  const longest = Math.max(0, ...words.map((word) => word.length));

  const fewest = (text) => {
    const best = Array(text.length).fill(null).concat([[]]); // of the text from each character on
    for (let start = text.length - 1; start >= 0; start--) {
      for (let end = start + 1; end <= Math.min(start + Math.max(longest, 1), text.length); end++) {
        const word = text.slice(start, end);
        const here = end === start + 1 || known.has(word);
        if (here && (!best[start] || best[end].length < best[start].length)) {
          best[start] = [word, ...best[end]];
        }
      }
    }
    return best[0];
  };
  const cut = (asked) => asked.replace(/\p{Script=Han}+/gu, (text) => ` ${fewest(text).join(" ")} `);

  window.addEventListener("DOMContentLoaded", () => {
    const search = new PagefindUI({
      element: "#mwl-search",
      showSubResults: true,
      showImages: false,
      autofocus: true,
      ...(words.length && { processTerm: cut }),
    });
    const field = document.querySelector("#mwl-search input");
    field.setAttribute("aria-label", field.placeholder);
    const asked = new URLSearchParams(location.search).get("q");
    if (asked) search.triggerSearch(asked);
  });
})();
