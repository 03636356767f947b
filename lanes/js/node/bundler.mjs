// Bundles resources with esbuild, request by request: one JSON document a line on stdin, one on stdout.
//
// {id, entry, name, root, guest, compat, deploy, nodeEnv, intl?}
//   ->  {id, code, map, inputs, importers, warnings} | {id, errors, importers} | {id, fault} | {id, needs: 'intl'}
//
// `entry` is the absolute path of the user's module and `name` its name in messages. Paths in responses are
// relative to `root`. `guest` is the file of '@svc/guest', `compat` the folder of svc's modules of Node.js. With
// `deploy` the bundle is the main module of a deploy build, which imports the glue as `svc:glue`. Otherwise it is a
// script that returns the exports. `nodeEnv` is NODE_ENV of the manifest, or null. `intl` is the folder with the packages
// of Intl, which few bundles need.
import { context } from 'esbuild';
import { createInterface } from 'node:readline';
import { realpathSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { absentIn, packagesWithPage, withAbsent, withoutPage } from './choices.mjs';
import { withClassNames } from './class_names.mjs';
import { featureOptions, featuresOf, intlPackages } from './features.mjs';
import { importersIn, importersOfFailing } from './importers.mjs';
import { jsx } from './jsx.mjs';
import { nodeBuiltins } from './node_builtins.mjs';
import { withoutPropertyEscapes } from './regexps.mjs';

const contexts = new Map();
const STRICT = /^("use strict";)?/;
const packages = realpathSync(fileURLToPath(new URL('../node_modules', import.meta.url)));

function plugin({ entry, name, deploy }) {
  const source = `import app from ${JSON.stringify(entry)};\n` + (deploy
    ? `import { svcHost } from "svc:glue";\nsvcHost(app, ${JSON.stringify(name)});\n`
    : `export default app;\nexport const svcEntry = ${JSON.stringify(name)};\n`);
  return {
    name: 'svc',
    setup(build) {
      build.onResolve({ filter: /^svc:app$/ }, () => ({ path: 'app', namespace: 'svc' }));
      build.onLoad({ filter: /.*/, namespace: 'svc' }, () => ({ contents: source, resolveDir: '/', loader: 'js' }));
      build.onResolve({ filter: /^svc:glue$/ }, ({ namespace }) =>
        namespace === 'svc' ? { path: 'svc:glue', external: true } : undefined);
    },
  };
}

const loader = Object.fromEntries([
  ...['.css', '.csv', '.html', '.md', '.sql', '.svg', '.txt', '.xml'].map((extension) => [extension, 'text']),
  ...['.bin', '.gif', '.ico', '.jpeg', '.jpg', '.pdf', '.png', '.ttf', '.wasm', '.webp', '.woff', '.woff2', '.zip'].map(
    (extension) => [extension, 'binary']),
]);

function options(request, features) {
  const { root, guest, deploy, nodeEnv, compat, intl, paged, absent } = request;
  return {
    entryPoints: ['svc:app'],
    ...(deploy
      ? { format: 'esm' }
      : { format: 'iife', globalName: 'svcApp', banner: { js: '"use strict";' }, footer: { js: 'svcApp;\n//# sourceURL=svc-app.js' } }),
    bundle: true,
    alias: { '@svc/guest': guest },
    // esbuild would replace NODE_ENV, which is a variable of the guest unless the manifest sets it.
    define: {
      __dirname: '"/"',
      __filename: '"/svc-app.js"',
      'import.meta': '{"url":"file:///svc-app.js"}',
      'process.env.NODE_ENV': nodeEnv == null ? 'process.env.NODE_ENV' : JSON.stringify(nodeEnv),
      // A variable that a dev build has in its snapshot only.
      SVC_SNAPSHOT: deploy ? 'true' : 'svcHost',
    },
    write: false,
    outfile: join(root, 'svc-app.js'),
    absWorkingDir: root,
    // `browser` of a package.json replaces files that need Node.js. The default of `mainFields` prefers it too, and takes
    // `main` for require().
    platform: 'browser',
    target: 'es2022',
    ...featureOptions(features, compat),
    conditions: ['workerd', 'edge-light', 'worker', 'browser', 'import', 'module'],
    loader,
    sourcemap: 'external',
    sourcesContent: false,
    metafile: true,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
    keepNames: false,
    plugins: [
      plugin(request), jsx, nodeBuiltins({ compat, packages, root }),
      ...(features?.intl ? [intlPackages(features, intl)] : []),
      ...(paged?.length ? [withoutPage(paged)] : []),
      ...(absent ? [withAbsent(absent)] : []),
    ],
  };
}

function message({ text, location, notes }) {
  const place = location && { file: location.file, line: location.line, column: location.column + 1, length: location.length };
  return { text, notes: (notes ?? []).map((note) => note.text), ...place };
}

// A deploy build is the same wherever svc is installed: names of svc's files begin with `svc:` in it.
function nameable({ root, deploy, compat, intl }, code, map) {
  if (!deploy) return { code, map };
  const ours = [dirname(compat), realpathSync(dirname(compat)), packages, ...(intl ? [realpathSync(intl)] : [])];
  const named = (path) => {
    const place = resolve(root, path), own = ours.find((folder) => place.startsWith(folder + sep));
    return own ? `svc:${relative(own, place)}` : undefined;
  };
  const read = JSON.parse(map);
  read.sources = read.sources.map((source) => named(decodeURIComponent(source)) ?? source);
  // A comment, or the key of a function, names each file.
  const renamed = code.replace(/^(\/\/ |  ")(\.\.?\/[^"\n]*)/gm, (text, before, path) => (named(path) ? before + named(path) : text));
  return { code: renamed, map: JSON.stringify(read) };
}

/** Return the result of esbuild with features. Each resource has a context without any, and one with its last ones. */
async function built(request, features) {
  const { entry, name, root, deploy, nodeEnv, paged, absent } = request;
  const key = JSON.stringify([entry, name, root, deploy, Boolean(features), Boolean(paged)]);
  const wanted = JSON.stringify([features, nodeEnv, paged, absent]);
  let cached = contexts.get(key);
  if (!cached || cached.wanted !== wanted) {
    cached?.context.dispose();
    cached = { wanted, context: await context(options(request, features)) };
    contexts.set(key, cached);
  }
  return cached.context.rebuild();
}

/** Return the result of esbuild, without packages that are absent and that packages require in functions. */
async function build(request, features = undefined) {
  try {
    return await built(request, features);
  } catch (error) {
    const absent = absentIn(error);
    if (!absent.length) throw error;
    return built({ ...request, absent }, features);
  }
}

/** Return whether two results are of the same files, by their sizes; features may add some. */
function sameInputs({ metafile: { inputs } }, { metafile: { inputs: others } }) {
  return Object.entries(inputs).every(([path, { bytes }]) => others[path]?.bytes === bytes);
}

async function bundle(request) {
  try {
    let result;
    for (let tries = 5, plain; tries && !(plain && sameInputs(plain, result)); tries--) {
      plain = await build(request);
      const paged = packagesWithPage(plain, request), chosen = paged.length ? { ...request, paged } : request;
      if (paged.length) plain = await build(chosen);
      const features = featuresOf(plain, request);
      if (features.intl && !request.intl) return { needs: 'intl' };
      // This reads the files again, which may have changed.
      result = features.any ? await build(chosen, features) : plain;
    }
    const text = (end) => result.outputFiles.find((file) => file.path.endsWith(end)).text;
    const map = text('svc-app.js.map');
    const { code, before } = await withoutPropertyEscapes(withClassNames(text('svc-app.js'), map));
    return {
      // On the first line, so that the source map stays valid.
      ...nameable(request, code.replace(STRICT, (strict) => strict + before), map),
      inputs: Object.entries(result.metafile.inputs).map(([path, { bytes, format }]) => ({ path, bytes, format })),
      importers: importersIn(result),
      warnings: result.warnings.map(message),
    };
  } catch (error) {
    if (!error.errors) throw error;
    const inPackages = error.errors.some(({ location }) => location?.file.includes('node_modules'));
    const importers = inPackages ? await importersOfFailing(options(request)) : {};
    return { errors: error.errors.map(message), importers };
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line);
  bundle(request)
    .catch((error) => ({ fault: String(error?.stack ?? error) }))
    .then((answer) => process.stdout.write(JSON.stringify({ id: request.id, ...answer }) + '\n'));
}
for (const each of contexts.values()) each.context.dispose();
