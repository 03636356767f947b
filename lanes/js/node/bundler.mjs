// Bundles Resources with esbuild, request by request: one JSON document a line on stdin, one on stdout.
//
// {id, entry, name, root, guest, glue?}  ->  {id, code, map, inputs, warnings} | {id, errors} | {id, fault}
//
// `entry` is the absolute path of the user's module and `name` what to call it; paths in answers are
// relative to `root`. `guest` is the file that '@svc/guest' means. With `glue` (a folder) the bundle is the
// main module of a deploy build, without it a script whose value is the module's exports.
import { context } from 'esbuild';
import { createInterface } from 'node:readline';
import { builtinModules } from 'node:module';
import { realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const contexts = new Map();
const packages = realpathSync(fileURLToPath(new URL('../node_modules', import.meta.url)));
// A narrow filter: esbuild asks this process about every import that one lets through.
const builtins = new RegExp(`^(node:.*|${builtinModules.join('|')})$`);

function plugin({ entry, name, glue }) {
  const source = `import app from ${JSON.stringify(entry)};\n` +
    `export default app;\nexport const svcEntry = ${JSON.stringify(name)};\n`;
  return {
    name: 'svc',
    setup(build) {
      build.onResolve({ filter: /^svc:app$/ }, () => ({ path: 'app', namespace: 'svc' }));
      build.onLoad({ filter: /.*/, namespace: 'svc-none' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
      build.onLoad({ filter: /.*/, namespace: 'svc' }, () => ({ contents: source, resolveDir: '/', loader: 'js' }));
      // The glue's packages are the toolchain's; a user's import never finds them.
      build.onResolve({ filter: /^@remix-run\// }, ({ path, importer, kind, pluginData }) =>
        glue && importer.startsWith(glue) && pluginData !== 'again'
          ? build.resolve(path, { resolveDir: packages, kind, pluginData: 'again' })
          : undefined);
      build.onResolve({ filter: /^(wasi|svc:doors)[:/]/ }, ({ path, importer }) =>
        glue && importer.startsWith(glue) ? { path, external: true } : undefined);
      // A package of npm may have the name of a Node.js module; where there is none, say what it is.
      build.onResolve({ filter: builtins }, async ({ path, resolveDir, kind, importer, pluginData }) => {
        if (pluginData === 'again') return undefined;
        const found = await build.resolve(path, { resolveDir, kind, importer, pluginData: 'again' });
        // A package may say in `browser` that it does without.
        if (!found.errors.length) return isAbsolute(found.path) ? found : { path, namespace: 'svc-none' };
        return { errors: [{ text: `"${path}" is a module of Node.js, which the js lane does not have` }] };
      });
    },
  };
}

function options(request) {
  const { root, guest, glue } = request;
  return {
    ...(glue
      ? { entryPoints: [join(glue, 'deploy.js')], format: 'esm' }
      : { entryPoints: ['svc:app'], format: 'iife', globalName: 'svcApp', banner: { js: '"use strict";' }, footer: { js: 'svcApp;\n//# sourceURL=svc-app.js' } }),
    bundle: true,
    alias: { '@svc/guest': guest },
    // NODE_ENV is the guest's own, as every variable; esbuild would settle it.
    define: { 'import.meta': '{"url":"file:///svc-app.js"}', 'process.env.NODE_ENV': 'process.env.NODE_ENV' },
    write: false,
    outfile: join(root, 'svc-app.js'),
    absWorkingDir: root,
    // Packages say in `browser` what stands in for their files that need Node.js.
    platform: 'browser',
    target: 'es2022',
    supported: { 'top-level-await': false },
    mainFields: ['module', 'main'],
    conditions: ['worker', 'browser', 'import', 'module'],
    loader: { '.txt': 'text', '.html': 'text', '.css': 'text', '.svg': 'text', '.wasm': 'binary' },
    sourcemap: 'external',
    sourcesContent: false,
    metafile: true,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
    keepNames: false,
    plugins: [plugin(request)],
  };
}

function message({ text, location, notes }) {
  const place = location && { file: location.file, line: location.line, column: location.column + 1, length: location.length };
  return { text, notes: (notes ?? []).map((note) => note.text), ...place };
}

// A deploy build is the same wherever svc is installed: our own files are `svc:…` in it, not the way to them.
function nameable({ root, glue }, code, map) {
  if (!glue) return { code, map };
  const ours = [dirname(glue), realpathSync(dirname(glue)), packages];
  const named = (path) => {
    const place = resolve(root, path), own = ours.find((folder) => place.startsWith(folder + sep));
    return own ? `svc:${relative(own, place)}` : undefined;
  };
  const read = JSON.parse(map);
  read.sources = read.sources.map((source) => named(decodeURIComponent(source)) ?? source);
  // Each file begins with a line that names it.
  const told = code.replace(/^\/\/ (\.\.?\/.*)$/gm, (line, path) => (named(path) ? `// ${named(path)}` : line));
  return { code: told, map: JSON.stringify(read) };
}

async function bundle(request) {
  const key = JSON.stringify([request.entry, request.name, request.root, request.glue]);
  let kept = contexts.get(key);
  if (!kept) contexts.set(key, (kept = await context(options(request))));
  try {
    const result = await kept.rebuild();
    const text = (end) => result.outputFiles.find((file) => file.path.endsWith(end)).text;
    return {
      ...nameable(request, text('svc-app.js'), text('svc-app.js.map')),
      inputs: Object.entries(result.metafile.inputs).map(([path, { bytes, format }]) => ({ path, bytes, format })),
      warnings: result.warnings.map(message),
    };
  } catch (error) {
    if (!error.errors) throw error;
    return { errors: error.errors.map(message) };
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line);
  bundle(request)
    .catch((error) => ({ fault: String(error?.stack ?? error) }))
    .then((answer) => process.stdout.write(JSON.stringify({ id: request.id, ...answer }) + '\n'));
}
for (const kept of contexts.values()) kept.dispose();
