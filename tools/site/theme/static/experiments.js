// Experiments: the picture follows the inputs. Nothing is loaded before a reader touches one.
(() => {
  "use strict";
  const python = window.mwlPython;
  if (!python) return;

  const compute = (language, name, positions) =>
    python.completely(() =>
      python.call(language, "helpers.course.simulations.page", "result", name, positions),
    );

  const readTable = async (language, name) => {
    try {
      const answer = await fetch(new URL(`tables/${language}/${name}.json.packed`, python.folder));
      if (!answer.ok) return {};
      return await new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).json();
    } catch {
      return {}; // Python computes all of it
    }
  };

  const begin = (root) => {
    const { experiment: name, language, loading, failed } = root.dataset;
    const controls = [...root.querySelectorAll(".mwl-controls > *")];
    const sliders = controls.map((control) => control.querySelector("input[type=range]"));
    const [picture, sentence, state] = ["picture", "sentence", "state"].map((part) =>
      root.querySelector(`.mwl-experiment-${part}`),
    );
    let table = null;
    let busy = false;
    let ready = false;

    const positions = () =>
      controls.map((control, k) =>
        sliders[k]
          ? Number(sliders[k].value)
          : [...control.querySelectorAll("input")].findIndex((one) => one.checked),
      );

    const label = () => {
      for (const slider of sliders.filter(Boolean)) {
        const text = JSON.parse(slider.dataset.texts)[slider.value];
        slider.setAttribute("aria-valuetext", text);
        slider.parentElement.querySelector("output").textContent = text;
      }
    };

    const show = ({ svg, sentence: text, last }) => {
      picture.innerHTML = svg;
      sentence.textContent = text;
      last.forEach((most, k) => { if (sliders[k]) sliders[k].max = most; });
      label();
      state.textContent = "";
    };

    // The table comes first: it is small, and it shows the first moves while Python is loading.
    const load = () => {
      table ??= readTable(language, name).then((rows) => {
        compute(language, name, positions())
          .then(() => { ready = true; })
          .catch(() => {});
        return rows;
      });
      return table;
    };

    const result = async (chosen) => {
      const rows = await load();
      if (rows[chosen]) return rows[chosen];
      if (!ready) state.textContent = loading;
      const found = await compute(language, name, chosen);
      ready = true;
      return found;
    };

    const follow = async () => {
      label();
      if (busy) return;
      busy = true;
      root.setAttribute("aria-busy", "true");
      try {
        for (let shown = ""; shown !== String(positions()); ) {
          shown = String(positions());
          show(await result(positions()));
        }
      } catch (error) {
        console.error(error);
        state.textContent = failed;
      }
      root.removeAttribute("aria-busy");
      busy = false;
    };

    for (const kind of ["pointerdown", "keydown"]) root.addEventListener(kind, load, { once: true });
    for (const kind of ["input", "change"]) root.addEventListener(kind, follow);
    root.querySelector(".mwl-controls").hidden = false;
    root.querySelector(".mwl-experiment-settings").hidden = true;
  };

  document.querySelectorAll(".mwl-experiment").forEach(begin);
})();
