// Answers to exercises: the browser's Python runs the code and the course's own check.
(() => {
  "use strict";
  const SECONDS = 10; // an answer needs much less than one
  const MODULE = "tools.site.browser_check";
  const python = window.mwlPython;
  if (!python) return;

  const begin = (root) => {
    const { task, language, before, loading, failed, slow } = root.dataset;
    const [field, button, result] = ["textarea", "button", "pre"].map((one) => root.querySelector(one));

    const run = async () => {
      if (button.getAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true"); // keeps the focus, unlike "disabled"
      result.textContent = loading;
      let timer = null;
      let late = false;
      const check = async () => {
        clearTimeout(timer);
        await python.call(language, MODULE, "ready"); // the clock starts when Python has
        timer = setTimeout(() => { late = true; python.stop(slow); }, SECONDS * 1000);
        return python.call(language, MODULE, "check_answer", task, before, field.value);
      };
      try {
        result.textContent = (await python.completely(check)).text;
      } catch (error) {
        if (!late) console.error(error);
        result.textContent = late ? slow : failed;
      }
      clearTimeout(timer);
      button.removeAttribute("aria-disabled");
    };

    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        run();
        return;
      }
      // A new line begins like the previous one, as in any editor of code.
      const line = field.value.slice(0, field.selectionStart).split("\n").pop();
      const indent = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
      event.preventDefault();
      field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, "end");
    });
    // Python loads while the reader writes.
    const load = () => { python.call(language, MODULE, "ready").catch(() => {}); };
    root.addEventListener("focusin", load, { once: true });
    button.addEventListener("click", run);
    root.hidden = false;
  };

  document.querySelectorAll(".mwl-answer").forEach(begin);
})();
