// The browser's Python for the features of a page, in a worker that starts with the first call.
window.mwlPython = (() => {
  "use strict";
  // A page that was opened from a disk may load no other file.
  if (!window.Worker || !window.DecompressionStream || location.protocol === "file:") return null;
  const folder = new URL("../../python/", document.currentScript.src);
  const waiting = new Map();
  let worker = null;
  let count = 0;

  const stop = (message) => {
    for (const { reject } of waiting.values()) reject(new Error(message));
    waiting.clear();
    if (worker) worker.terminate();
    worker = null; // the next call starts another one
  };

  const start = () => {
    worker = new Worker(new URL("worker.mjs", folder), { type: "module" });
    worker.onerror = (event) => stop(event.message);
    worker.onmessage = ({ data: { id, value, error } }) => {
      if (error) return stop(error);
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

  return { call, folder, stop };
})();
