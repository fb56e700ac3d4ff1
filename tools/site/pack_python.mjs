// Runs pack_python.py in Pyodide, so that modules are compiled for the Python that will run them.
// Then starts their Python as worker.mjs does. Writes usage.json: the functions of the program that
// ran, and the data that only others read.
// Arguments: the folder of the npm package with a program that counts, the root of the repository,
// the folder for the result, a folder with messages (ru.mo) and answers (answers.json).
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, root, output, inputs] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")));
const program = await import(pathToFileURL(join(folder, "pyodide.asm.mjs")));

const MARK = "called "; // as in reduced_program.py
const called = new Set();

const start = async (options) => {
  const marks = [];
  const createPyodideModule = (settings) => {
    const { instantiateWasm } = settings;
    settings.instantiateWasm = (imports, receive) =>
      instantiateWasm(imports, ({ exports }, module) => {
        const all = Object.entries(exports);
        marks.push(...all.filter(([name]) => name.startsWith(MARK)));
        // Emscripten would take the marks for symbols.
        receive({ exports: Object.fromEntries(all.filter(([name]) => !name.startsWith(MARK))) }, module);
      });
    return program.default(settings);
  };
  const python = await loadPyodide({ indexURL: folder, createPyodideModule, ...options });
  return { python, marks };
};

const note = (marks) => {
  for (const [name, { value }] of marks) if (value) called.add(Number(name.slice(MARK.length)));
};

const pack = async () => {
  const { python, marks } = await start({});
  for (const [place, target] of [["/root", root], ["/output", output], ["/inputs", inputs]]) {
    python.FS.mkdir(place);
    python.FS.mount(python.FS.filesystems.NODEFS, { root: target }, place);
  }
  const script = readFileSync(new URL("pack_python.py", import.meta.url), "utf-8");
  python.globals.set("__name__", "pack_python");
  python.runPython(script);
  python.runPython("pack('/root', '/output', '/inputs/answers.json')");
  note(marks); // before what reads the tables
  return python.runPython("codec_tables()").toJs();
};

const runAsWorker = async () => {
  const { python, marks } = await start({
    stdLibURL: join(output, "python_stdlib.zip"),
    _sysExecutable: "./this.program", // as in a browser, where it is Emscripten's default
  });
  const course = new Uint8Array(readFileSync(join(output, "course.zip")));
  python.unpackArchive(course, "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course')");
  const call = (module, name, ...args) => {
    const found = python.pyimport(module)[name](...args.map((one) => python.toPy(one)));
    return found.toJs({ dict_converter: Object.fromEntries });
  };
  for (const file of readdirSync(inputs).filter((name) => name.endsWith(".mo"))) {
    const language = file.split(".")[0];
    const place = `/course/helpers/locale/${language}/LC_MESSAGES`;
    python.FS.mkdirTree(place);
    python.FS.writeFile(`${place}/helpers.mo`, new Uint8Array(readFileSync(join(inputs, file))));
    python.pyimport("helpers.i18n").set_language(language);
    call("helpers.course.simulations.page", "result", "ring_rounds", [2, 0]);
  }
  const answers = JSON.parse(readFileSync(join(inputs, "answers.json"), "utf-8"));
  for (const answer of answers) call("tools.site.browser_check", "check_answer", ...answer);
  note(marks);
};

const unused = await pack();
await runAsWorker();
writeFileSync(join(output, "usage.json"), JSON.stringify({ called: [...called], unused }));
