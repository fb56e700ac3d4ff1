// The browser's Python for the features of a page, in a worker that starts with the first call.
window.mwlPython = (() => {
  "use strict";
  // A page that was opened from a disk may load no other file.
  if (!window.Worker || !window.DecompressionStream || location.protocol === "file:") return null;
  const folder = new URL("../../python/", document.currentScript.src);
  const waiting = new Map();
  let worker = null;
  let complete = false; // whether the next worker loads the complete program
  let count = 0;

  const stop = (message, incomplete = false) => {
    const error = Object.assign(new Error(message), { incomplete });
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    if (worker) worker.terminate();
    worker = null; // the next call starts another one
  };

  const start = () => {
    const name = complete ? "worker.mjs?complete" : "worker.mjs";
    worker = new Worker(new URL(name, folder), { type: "module" });
    worker.onerror = (event) => stop(event.message);
    worker.onmessage = ({ data: { id, value, error, incomplete } }) => {
      complete ||= Boolean(incomplete);
      if (error) return stop(error, incomplete);
      waiting.get(id).resolve(value);
      return waiting.delete(id);
    };
  };

  // Calls a function of a module of the course, with texts and lists of numbers.
  const call = (language, module, name, ...args) =>
    new Promise((resolve, reject) => {
      if (!worker) start();
      waiting.set(++count, { resolve, reject });
      worker.postMessage({ id: count, language, module, name, args });
    });

  // Does work that calls Python, and does it again if it needs the complete program.
  const completely = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (!error.incomplete) throw error;
      return work();
    }
  };

  return { call, completely, folder, stop };
})();
