#!/usr/bin/env node
// The program that componentize-js runs as wizer while a template is made (see template.mjs):
//
//   wizer.mjs [--mapdir=GUEST::HOST] [--dir=FOLDER] --init-func NAME -o=OUT IN < INPUT
//
// It stores in SVC_TEMPLATE what later snapshots need, and writes the snapshot of this run.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { snapshot } from './snapshot.mjs';

const SCRIPTS = '/svc-init'; // the path of componentize-js's scripts inside the module
const VARIABLES = /^(DEBUG|SOURCE_NAME|(EXPORT|IMPORT|FEATURE)[A-Z0-9_]*)$/;

const options = process.argv.slice(2);
const option = (prefix) => options.find((each) => each.startsWith(prefix)).slice(prefix.length);
const scripts = option('--dir='), [guest, host] = option('--mapdir=').split('::');
const names = Object.keys(process.env).filter((name) => VARIABLES.test(name)).sort();
const run = {
  init: options[options.indexOf('--init-func') + 1],
  env: Object.fromEntries(names.map((name) => [name, process.env[name]])),
  // Arguments stay in the memory, so they must not contain a path of this machine.
  input: readFileSync(0, 'utf8').replaceAll(scripts, SCRIPTS).replaceAll(`${host}/`, guest),
};
const folder = process.env.SVC_TEMPLATE;
mkdirSync(join(folder, 'scripts'));
copyFileSync(join(scripts, 'initializer.js'), join(folder, 'scripts', 'initializer.js'));
copyFileSync(options.at(-1), join(folder, 'module.wasm'));
writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...run, scripts: SCRIPTS, sources: guest }));
const folders = [[SCRIPTS, scripts], [guest, host]];
writeFileSync(option('-o='), snapshot(readFileSync(options.at(-1)), { ...run, folders }));
