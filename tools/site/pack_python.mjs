// Runs pack_python.py in Pyodide, so that modules are compiled for the Python that will run them.
// Arguments: the folder of the npm package, the root of the repository, the folder for the result.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, root, output] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: folder });
for (const [place, target] of [["/root", root], ["/output", output]]) {
  python.FS.mkdir(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: target }, place);
}
const script = readFileSync(new URL("pack_python.py", import.meta.url), "utf-8");
python.globals.set("__name__", "pack_python");
python.runPython(script);
python.runPython("pack('/root', '/output')");
