// Which file imports another, for errors in packages.
import { build } from 'esbuild';
import { relative, sep } from 'node:path';

/** Return an importer of each file of a result of esbuild, by shortest ways from the entry. */
export function importersIn({ metafile: { inputs, outputs } }) {
  const importers = {}, waiting = Object.values(outputs).map(({ entryPoint }) => entryPoint).filter(Boolean);
  for (const file of waiting) {
    for (const { path } of inputs[file]?.imports ?? []) {
      if (path in importers || waiting[0] === path) continue;
      importers[path] = file;
      waiting.push(path);
    }
  }
  return importers;
}

/** Return an importer of each file of a build that fails, which has no metafile. */
export async function importersOfFailing(options) {
  const importers = {}, root = options.absWorkingDir, named = (path) => relative(root, path).split(sep).join('/');
  const recorder = {
    name: 'svc-importers',
    setup(builder) {
      builder.onResolve({ filter: /.*/ }, async ({ path, importer, kind, resolveDir, namespace, pluginData }) => {
        if (namespace !== 'file' || pluginData) return undefined;
        const found = await builder.resolve(path, { importer, kind, resolveDir, pluginData: 'svc-importers' });
        if (found.path) importers[named(found.path)] ??= named(importer);
        return undefined;
      });
    },
  };
  await build({ ...options, plugins: [recorder, ...options.plugins] }).catch(() => {});
  return importers;
}
