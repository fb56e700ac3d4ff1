// Runs the course's Python for the features of a page, beside the page's own thread.
import { loadPyodide } from "./pyodide.mjs";
import "./xz-decompress.js";

const { XzReadableStream } = self["xz-decompress"];

// Without it, the program traps in functions that no page has called (tools/site/reduced_program.py).
const complete = self.location.search === "?complete";

const read = self.fetch.bind(self);
const request = async (name) => {
  const answer = await read(new URL(`${name}.xz`, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.blob();
};
// A stream decompresses after the one before has been read to its end, so it gets a whole file.
const unpack = async (packed, type) =>
  new Response(new XzReadableStream((await packed).stream()), { headers: { "Content-Type": type } });
const bytes = async (packed) => (await unpack(packed, "application/octet-stream")).arrayBuffer();

// One after the other, so that the program is compiled while the library loads, and Python starts
// while the course does. Pyodide fetches the first two by itself.
const wasm = request(complete ? "pyodide.complete.wasm" : "pyodide.asm.wasm");
const library = wasm.then(() => request("python_stdlib.zip"));
const course = library.then(() => request("course.zip"));
self.fetch = (address, options) => {
  const name = String(address).split("/").pop();
  if (name === "pyodide.asm.wasm") return unpack(wasm, "application/wasm");
  return name === "python_stdlib.zip" ? unpack(library, "application/zip") : read(address, options);
};

const program = async () => {
  const script = new Blob([await bytes(request("pyodide.asm.mjs"))], { type: "text/javascript" });
  return (await import(URL.createObjectURL(script))).default;
};

const start = async (language) => {
  const messages = language === "en" ? null : request(`${language}.mo`);
  const python = await loadPyodide({ createPyodideModule: await program() });
  python.unpackArchive(await bytes(course), "zip", { extractDir: "/course" });
  if (messages) {
    const folder = `/course/helpers/locale/${language}/LC_MESSAGES`;
    python.FS.mkdirTree(folder);
    python.FS.writeFile(`${folder}/helpers.mo`, new Uint8Array(await bytes(messages)));
  }
  python.runPython("import sys; sys.path.insert(0, '/course')");
  python.pyimport("helpers.i18n").set_language(language);
  return python;
};

// Emscripten does not wait for its own start, so it does not report a failure there.
const failure = new Promise((_, reject) => {
  self.addEventListener("unhandledrejection", ({ reason }) => reject(reason));
});

let started;
self.onmessage = async ({ data: { id, language, module, name, args } }) => {
  try {
    started ??= Promise.race([start(language), failure]);
    const python = await started;
    const found = python.pyimport(module)[name](...args.map((one) => python.toPy(one)));
    const value = found?.toJs ? found.toJs({ dict_converter: Object.fromEntries }) : found;
    self.postMessage({ id, value });
  } catch (error) {
    const incomplete = !complete && error instanceof WebAssembly.RuntimeError;
    self.postMessage({ id, error: String(error), incomplete });
  }
};
