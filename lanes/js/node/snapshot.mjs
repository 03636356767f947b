#!/usr/bin/env node
// Runs a core module's initialization and writes the module that begins where it ended: the memory as it is
// then, the globals, no initialization. componentize-js takes it for wizer (`wizerBin`), whose part of the
// command line this reads:
//
//   snapshot.mjs [--mapdir=GUEST::HOST] [--dir=FOLDER] --init-func NAME -o=OUT IN < ARGUMENTS
//
// What wizer does not promise, and this does: the same IN, files and ARGUMENTS make the same OUT, byte for
// byte, wherever the folders are and whenever it runs. So time begins at CLOCK and random bytes follow from the
// files. It knows one shape of modules only, componentize-js's: one memory, globals of type i32, active data
// segments, no start function.
import { createHash } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

process.emitWarning = () => {}; // node calls its WASI experimental
const { WASI } = await import('node:wasi');

const CLOCK = 946_684_800_000_000_000n; // 2000-01-01T00:00:00Z
const REALTIME = 0; // the clock of that time; others count from the start
const TICK = 1000n; // ns that pass from one look at the clock to the next
const DIR = '/svc-init'; // what the folder of `--dir` is called within
const GLOBAL = 'svc:global:';
const PAGE = 65536;
const GAP = 16; // zeros that are cheaper to write than another segment
const SECTION = { memory: 5, global: 6, export: 7, start: 8, data: 11, dataCount: 12 };
const VARIABLES = /^(DEBUG|SOURCE_NAME|(EXPORT|IMPORT|FEATURE)[A-Z0-9_]*)$/;

class Reader {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }
  get over() { return this.at >= this.bytes.length; }
  byte() { return this.bytes[this.at++]; }
  number() {
    let value = 0, shift = 0, byte;
    do {
      byte = this.byte();
      value += (byte & 127) * 2 ** shift;
      shift += 7;
    } while (byte > 127);
    return value;
  }
  take(count) { return this.bytes.subarray(this.at, (this.at += count)); }
  name() { return Buffer.from(this.take(this.number())).toString(); }
}

function number(value) {
  const out = [];
  do {
    const more = value > 127;
    out.push((value % 128) + (more ? 128 : 0));
    value = Math.floor(value / 128);
  } while (value);
  return out;
}

function constant(value) {
  const out = [0x41];
  for (value |= 0; ; value >>= 7) {
    const last = value >= -64 && value < 64;
    out.push((value & 127) | (last ? 0 : 128));
    if (last) return Buffer.from([...out, 0x0b]);
  }
}

function vector(items) { return Buffer.concat([Buffer.from(number(items.length)), ...items]); }

function read(bytes) {
  const reader = new Reader(bytes, 8), sections = [];
  while (!reader.over) sections.push([reader.byte(), reader.take(reader.number())]);
  return sections;
}

function written(sections) {
  const parts = sections.flatMap(([id, body]) => [Buffer.from([id, ...number(body.length)]), body]);
  return Buffer.concat([Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]), ...parts]);
}

function exportsOf(body) {
  const reader = new Reader(body), found = [];
  for (let left = reader.number(); left; left--) {
    const from = reader.at, name = reader.name();
    reader.byte();
    reader.number();
    found.push({ name, entry: Buffer.from(body.subarray(from, reader.at)) });
  }
  return found;
}

function globalsOf(body) {
  const reader = new Reader(body), found = [];
  for (let left = reader.number(); left; left--) {
    const from = reader.at, type = reader.byte(), mutable = reader.byte() === 1;
    if (type !== 0x7f || reader.byte() !== 0x41) throw new Error('a global is no plain i32');
    reader.number();
    if (reader.byte() !== 0x0b) throw new Error('a global is no plain i32');
    found.push({ mutable, entry: Buffer.from(body.subarray(from, reader.at)) });
  }
  return found;
}

function checkSegments(body) {
  const reader = new Reader(body);
  for (let left = reader.number(); left; left--) {
    if (reader.byte() !== 0 || reader.byte() !== 0x41) throw new Error('a data segment is not active');
    reader.number();
    reader.byte();
    reader.take(reader.number());
  }
}

function segments(memory) {
  const found = [], words = new Uint32Array(memory.buffer, 0, memory.length / 4);
  let begin = -1, end = 0;
  const close = () => {
    const data = memory.subarray(begin, end);
    found.push(Buffer.concat([Buffer.from([0]), constant(begin), Buffer.from(number(data.length)), data]));
  };
  for (let word = 0; word < words.length; word++) {
    if (!words[word]) continue;
    if (begin >= 0 && word * 4 - end >= GAP) {
      close();
      begin = -1;
    }
    if (begin < 0) begin = word * 4;
    end = word * 4 + 4;
  }
  if (begin >= 0) close();
  return found;
}

function* stream(seed) {
  for (let block = 0; ; block++) yield* createHash('sha256').update(`${block}`).update(seed).digest();
}

function imports(module, wasi, memory, seed) {
  const random = stream(seed);
  let passed = 0n;
  const fixed = {
    clock_time_get(clock, _precision, at) {
      passed += TICK;
      new DataView(memory().buffer).setBigUint64(at, (clock === REALTIME ? CLOCK : 0n) + passed, true);
      return 0;
    },
    random_get(at, count) {
      const bytes = new Uint8Array(memory().buffer, at, count);
      for (let i = 0; i < count; i++) bytes[i] = random.next().value;
      return 0;
    },
  };
  const found = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    const call = from === 'wasi_snapshot_preview1'
      ? (fixed[name] ?? wasi.wasiImport[name])
      : () => { throw new Error(`${name} of ${from} was called while the module is loaded`); };
    (found[from] ??= {})[name] = call;
  }
  return found;
}

function run(sections, { init, folders, input }) {
  const globals = globalsOf(sections.find(([id]) => id === SECTION.global)[1]);
  const seen = globals.flatMap(({ mutable }, index) => {
    const name = Buffer.from(`${GLOBAL}${index}`);
    return mutable ? [Buffer.from([name.length, ...name, 3, ...number(index)])] : [];
  });
  const opened = sections.map(([id, body]) =>
    [id, id === SECTION.export ? vector([...exportsOf(body).map(({ entry }) => entry), ...seen]) : body]);
  const module = new WebAssembly.Module(written(opened));

  const seed = createHash('sha256').update(input);
  for (const [, host] of folders) {
    for (const name of readdirSync(host).sort()) {
      if (/\.js$/.test(name)) seed.update(readFileSync(join(host, name)));
    }
  }
  const names = Object.keys(process.env).filter((name) => VARIABLES.test(name)).sort();
  const env = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  const making = mkdtempSync(join(tmpdir(), 'svc-snapshot-'));
  try {
    writeFileSync(join(making, 'arguments'), input);
    const stdin = openSync(join(making, 'arguments'));
    const wasi = new WASI({ version: 'preview1', env, preopens: Object.fromEntries(folders), stdin, returnOnExit: false });
    let instance;
    instance = new WebAssembly.Instance(module, imports(module, wasi, () => instance.exports.memory, seed.digest()));
    wasi.initialize({ exports: { memory: instance.exports.memory } });
    instance.exports._initialize?.();
    instance.exports[init]();
    return { globals, exports: instance.exports };
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

function snapshot(sections, init, { globals, exports }) {
  const memory = new Uint8Array(exports.memory.buffer);
  const data = segments(memory);
  const changed = {
    [SECTION.memory](body) {
      const reader = new Reader(body, 1), flags = reader.byte();
      reader.number();
      return Buffer.from([1, flags, ...number(memory.length / PAGE), ...reader.take(body.length - reader.at)]);
    },
    [SECTION.global]: () => vector(globals.map(({ mutable, entry }, index) => mutable
      ? Buffer.from([0x7f, 1, ...constant(exports[GLOBAL + index].value)])
      : entry)),
    [SECTION.export]: (body) => vector(exportsOf(body)
      .filter(({ name }) => name !== init && name !== '_initialize')
      .map(({ entry }) => entry)),
    [SECTION.dataCount]: () => Buffer.from(number(data.length)),
    [SECTION.data]: () => vector(data),
  };
  return written(sections.map(([id, body]) => [id, changed[id]?.(body) ?? body]));
}

function asked(options) {
  const after = (begin) => options.filter((each) => each.startsWith(begin)).map((each) => each.slice(begin.length));
  const [dir] = after('--dir='), [out] = after('-o=');
  const [guest, host] = after('--mapdir=')[0].split('::');
  // No path of this machine may come in, since arguments stay in the memory.
  const input = readFileSync(0, 'utf8').replaceAll(dir, DIR).replaceAll(`${host}/`, guest);
  const init = options[options.indexOf('--init-func') + 1];
  return { init, folders: [[DIR, dir], [guest, host]], input, out };
}

const options = process.argv.slice(2);
try {
  const wish = asked(options);
  const sections = read(readFileSync(options.at(-1)));
  if (sections.some(([id]) => id === SECTION.start)) throw new Error('the module has a start function');
  checkSegments(sections.find(([id]) => id === SECTION.data)[1]);
  writeFileSync(wish.out, snapshot(sections, wish.init, run(sections, wish)));
} catch (error) {
  // What the module itself had to say is printed by now.
  console.error(error instanceof WebAssembly.RuntimeError ? `Error: ${error.message}` : error);
  process.exit(1);
}
