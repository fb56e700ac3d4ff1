// Pagefind takes its words, and what it searches in, from the language of the page.
window.addEventListener("DOMContentLoaded", () => {
  const search = new PagefindUI({
    element: "#mwl-search",
    showSubResults: true,
    showImages: false,
    autofocus: true,
  });
  const field = document.querySelector("#mwl-search input");
  field.setAttribute("aria-label", field.placeholder);
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) search.triggerSearch(asked);
});
