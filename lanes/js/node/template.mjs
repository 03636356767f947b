// Makes the template of all components of a world: node template.mjs MODULE WIT WORLD FOLDER
//
// componentize-js rewrites and encodes 12 MB of code for each component, but only the memory and the globals
// of a component depend on its main module. So it runs once, and component.mjs does the rest.
import { componentize } from '@bytecodealliance/componentize-js';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [sourcePath, witPath, worldName, folder] = process.argv.slice(2);
// wizer.mjs is a script, so it must find this node.
const wizerBin = fileURLToPath(new URL('wizer.mjs', import.meta.url));
const env = { PATH: dirname(process.execPath), SVC_TEMPLATE: folder };
const { component } = await componentize({ sourcePath, witPath, worldName, env, wizerBin });
await writeFile(join(folder, 'component.wasm'), component);
