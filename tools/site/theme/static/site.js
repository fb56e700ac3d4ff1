// Headings have equal ids in every language, so a link to another language points to the current
// section. Nothing is stored.
(() => {
  const TOP = 0.3; // of the window: the current section begins above it

  const visible = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  };

  const named = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const place = target && target.closest("section[id], dt[id]");
    return place && visible(place.firstElementChild || place) ? place : null;
  };

  const place = () => {
    if (named()) return named().id;
    if (window.scrollY < 10) return "";
    const places = [...document.querySelectorAll("article section[id], article dt[id]")];
    const begun = places.filter((one) => one.getBoundingClientRect().top < TOP * window.innerHeight);
    return begun.length ? begun[begun.length - 1].id : "";
  };

  for (const link of document.querySelectorAll("a[data-language]")) {
    const lead = () => { link.hash = place(); };
    for (const kind of ["pointerdown", "focus", "click"]) link.addEventListener(kind, lead);
  }

  // Close a list of languages like a menu.
  for (const list of document.querySelectorAll(".mwl-languages details")) {
    document.addEventListener("click", (event) => {
      if (!list.contains(event.target)) list.open = false;
    });
    list.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      list.open = false;
      list.querySelector("summary").focus();
    });
  }
})();
