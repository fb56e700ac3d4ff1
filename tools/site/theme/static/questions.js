// The questions of a lesson, from the data of tools/site/questions.py. The browser stores for each
// question the numbers of the chosen choices, in the order in which the reader chose them.
"use strict";
(() => {
  const KEY = "mwl-questions";
  const LETTERS = "ABCD";

  // A browser may forbid the storage, for example in a private window. Then answers last as long
  // as the page.
  let kept = {};
  const read = () => {
    try {
      kept = JSON.parse(localStorage.getItem(KEY)) || {};
    } catch { /* the answers of this page */ }
    return kept;
  };
  const write = (answers) => {
    kept = answers;
    try {
      localStorage.setItem(KEY, JSON.stringify(answers));
    } catch { /* the answers of this page */ }
  };

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  // The texts are HTML that is escaped when the site is built.
  const marked = (name, html, attributes) => {
    const made = element(name, attributes);
    made.innerHTML = html;
    return made;
  };

  const score = (template, ids, course) => {
    const answers = read();
    const found = ids.filter((id) => (answers[id] || []).includes(course[id]));
    const counts = {
      answered: found.length,
      total: ids.length,
      first: found.filter((id) => answers[id][0] === course[id]).length,
    };
    return template.replace(/\{(\w+)\}/g, (_whole, name) => counts[name]);
  };

  const ask = (box, { questions, course, words }) => {
    const ids = questions.map((question) => question.id);
    const rows = []; // of all choices: what shows and hides their verdicts

    const scores = element("div", { class: "mwl-score", role: "status" });
    const showScores = () => {
      const lines = [[words.lesson, ids], [words.course, Object.keys(course)]];
      scores.replaceChildren(...lines.map(([text, some]) => element("p", {}, score(text, some, course))));
    };

    const choose = (id, number) => {
      const answers = read();
      write({ ...answers, [id]: [...(answers[id] || []), number] });
      showScores();
    };

    const row = (id, number, [text, reason], name) => {
      const right = course[id] === number;
      const why = element("div", { class: "mwl-why", id: name, role: "status" });
      const button = element(
        "button",
        { type: "button", class: "mwl-choice" },
        element("b", {}, `${LETTERS[number]}.`),
        marked("span", text),
      );
      const item = element("li", {}, button, why);
      const show = () => {
        const verdict = element("b", {}, right ? words.right : words.wrong);
        why.replaceChildren(verdict, marked("span", reason));
        item.className = right ? "mwl-is-right" : "mwl-is-wrong";
        button.setAttribute("aria-disabled", "true"); // stays in the order of the Tab key
        button.setAttribute("aria-describedby", name);
      };
      const hide = () => {
        why.replaceChildren();
        item.className = "";
        button.removeAttribute("aria-disabled");
        button.removeAttribute("aria-describedby");
      };
      button.addEventListener("click", () => {
        if (button.hasAttribute("aria-disabled")) return;
        show();
        choose(id, number);
      });
      rows.push({ hide, button });
      if ((read()[id] || []).includes(number)) show();
      return item;
    };

    const group = ({ id, text, code, choices }, index) => {
      const name = `mwl-question-${index + 1}`;
      const asked = marked("p", `<b>${index + 1}.</b> ${text}`, { id: name, class: "mwl-asked" });
      const list = element("ol", {}, ...choices.map(
        (choice, number) => row(id, number, choice, `${name}-${LETTERS[number]}`)));
      const shown = code ? [asked, element("pre", { tabindex: "0" }, element("code", {}, code)), list] : [asked, list];
      return element("div", { class: "mwl-question", role: "group", "aria-labelledby": name }, ...shown);
    };

    const again = element("button", { type: "button", class: "mwl-again" }, words.again);
    again.addEventListener("click", () => {
      const answers = { ...read() };
      for (const id of ids) delete answers[id];
      write(answers);
      for (const { hide } of rows) hide();
      showScores();
      rows[0].button.focus();
    });

    const groups = questions.map(group);
    showScores();
    const stored = element("p", { class: "mwl-tip" }, words.stored);
    box.replaceChildren(element("p", { class: "mwl-tip" }, words.tip), ...groups, scores, again, stored);
    window.addEventListener("storage", showScores); // another lesson in another tab
  };

  for (const box of document.querySelectorAll(".mwl-quiz")) {
    ask(box, JSON.parse(box.querySelector("script").textContent));
  }
})();
