// Runs the course's Python for the features of a page, beside the page's own thread.
import { loadPyodide } from "./pyodide.mjs";
import "./xz-decompress.js";

const { XzReadableStream } = self["xz-decompress"];

const unpack = async (name, type) => {
  const answer = await read(new URL(`${name}.xz`, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return new Response(new XzReadableStream(answer.body), { headers: { "Content-Type": type } });
};
const bytes = async (name) => (await unpack(name, "application/octet-stream")).arrayBuffer();

// Pyodide fetches these two by itself.
const read = self.fetch.bind(self);
self.fetch = (address, options) => {
  const name = String(address).split("/").pop();
  if (name === "pyodide.asm.wasm") return unpack(name, "application/wasm");
  return name === "python_stdlib.zip" ? unpack(name, "application/zip") : read(address, options);
};

const program = async () => {
  const script = new Blob([await bytes("pyodide.asm.mjs")], { type: "text/javascript" });
  return (await import(URL.createObjectURL(script))).default;
};

const start = async (language) => {
  const [createPyodideModule, course, messages] = await Promise.all([
    program(),
    bytes("course.zip"),
    language === "en" ? null : bytes(`${language}.mo`),
  ]);
  const python = await loadPyodide({ createPyodideModule });
  python.unpackArchive(course, "zip", { extractDir: "/course" });
  if (messages) {
    const folder = `/course/helpers/locale/${language}/LC_MESSAGES`;
    python.FS.mkdirTree(folder);
    python.FS.writeFile(`${folder}/helpers.mo`, new Uint8Array(messages));
  }
  python.runPython("import sys; sys.path.insert(0, '/course')");
  python.pyimport("helpers.i18n").set_language(language);
  return python;
};

let started;
self.onmessage = async ({ data: { id, language, module, name, args } }) => {
  try {
    started ??= start(language);
    const python = await started;
    const found = python.pyimport(module)[name](...args.map((one) => python.toPy(one)));
    const value = found?.toJs ? found.toJs({ dict_converter: Object.fromEntries }) : found;
    self.postMessage({ id, value });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
