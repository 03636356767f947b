// Snapshots: a core module whose memory and globals are those after its initialization.
//
// Unlike wizer, the result is reproducible: the same module, files and input make the same bytes, in any folder
// and at any time. The clock starts at CLOCK, files have no inode and no times, and random bytes derive from the
// files. Only modules of the shape that componentize-js produces are supported: one memory, globals of type i32,
// active data segments, no start function.
import { createHash } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';

process.emitWarning = () => {}; // node calls its WASI experimental
const { WASI } = await import('node:wasi');

// Initialization runs once, so optimized code costs more than it saves.
setFlagsFromString('--liftoff-only');

const CLOCK = 946_684_800_000_000_000n; // 2000-01-01T00:00:00Z
const REALTIME = 0; // the clock that starts at CLOCK; the others start at 0
const TICK = 1000n; // ns between two readings of a clock
const FILESTAT_VARYING = [0, 8, 40, 48, 56]; // offsets of dev, ino and the times in a filestat
const GLOBAL = 'svc:global:';
const PAGE = 65536;
const GAP = 16; // a shorter run of zeros is smaller than the header of another segment
const MAX_SEGMENTS = 100_000; // the limit of WebAssembly engines
const SECTION = { memory: 5, global: 6, export: 7, start: 8, data: 11, dataCount: 12 };
const STATE = [SECTION.memory, SECTION.global, SECTION.dataCount, SECTION.data];
const COMPONENT_MODULE = 1; // the id of a section of a component that holds a core module
// The first words of SpiderMonkey's GCSchedulingTunables: bytes of the heap, the nursery and thresholds.
const COLLECTOR = [32, 0.25, 64, 27, 100, 500].map((mib) => mib * 2 ** 20);
const FULL_PERIOD_AT = 30; // the index of minLastDitchGCPeriod
const FULL_PERIOD = [0xf8475800, 0xd]; // 60 s in ns
const PREAMBLE = 8; // bytes before the first section

/**
 * Initialize a module and return its snapshot.
 *
 * `folders` are pairs of a path inside the module and a folder of the host, `input` is what the module reads
 * from stdin, `env` its environment, and `init` the name of the exported function to call. Throws what the
 * module throws.
 */
export function snapshot(bytes, { init, folders, input, env }) {
  const sections = sectionsOf(bytes);
  if (sections.some(([id]) => id === SECTION.start)) throw new Error('the module has a start function');
  checkSegments(bodyOf(sections, SECTION.data));
  const globals = globalsOf(bodyOf(sections, SECTION.global));
  const exports = initialize(exposeGlobals(bytes, sections, globals), { init, folders, input, env });
  const memory = new Uint8Array(exports.memory.buffer);
  collectWheneverFull(exports.memory.buffer);
  const data = segments(memory);
  const replaced = {
    [SECTION.memory](body) {
      const reader = new Reader(body, 1), flags = reader.byte();
      reader.number();
      return Buffer.from([1, flags, ...leb(memory.length / PAGE), ...reader.take(body.length - reader.at)]);
    },
    [SECTION.global]: () => vector(globals.map(({ mutable, entry }, index) => mutable
      ? Buffer.from([0x7f, 1, ...constant(exports[GLOBAL + index].value)])
      : entry)),
    [SECTION.export]: (body) => vector(exportsOf(body)
      .filter(({ name }) => name !== init && name !== '_initialize')
      .map(({ entry }) => entry)),
    [SECTION.dataCount]: () => Buffer.from(leb(data.length)),
    [SECTION.data]: () => vector(data),
  };
  const module = encode(bytes, sections.map(([id, body]) => [id, replaced[id]?.(body) ?? body]));
  const check = exports.check_init();
  if (check !== 0) throw new Error(`the module's exports could not be bound (${check})`);
  return module;
}

/**
 * Return `component` with the memory and the globals of `module` instead of those of its main module.
 *
 * The main module is the largest one. Both modules must be snapshots of one module.
 */
export function withState(component, module) {
  const state = new Map(sectionsOf(module).filter(([id]) => STATE.includes(id)));
  const sections = sectionsOf(component);
  const modules = sections.filter(([id]) => id === COMPONENT_MODULE);
  const main = modules.reduce((a, b) => (b[1].length > a[1].length ? b : a));
  const inner = sectionsOf(main[1]);
  const count = (body) => new Reader(body).number();
  if (count(bodyOf(inner, SECTION.global)) !== count(state.get(SECTION.global))) {
    throw new Error('the template has other globals than the snapshot');
  }
  main[1] = encode(main[1], inner.map(([id, body]) => [id, state.get(id) ?? body]));
  return encode(component, sections);
}

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

function leb(value) {
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

function vector(items) { return Buffer.concat([Buffer.from(leb(items.length)), ...items]); }

function sectionsOf(bytes) {
  const reader = new Reader(bytes, PREAMBLE), sections = [];
  while (!reader.over) sections.push([reader.byte(), reader.take(reader.number())]);
  return sections;
}

function bodyOf(sections, id) { return sections.find(([each]) => each === id)[1]; }

/** Return the binary of sections, with the preamble of `original`. */
function encode(original, sections) {
  const parts = sections.flatMap(([id, body]) => [Buffer.from([id, ...leb(body.length)]), body]);
  return Buffer.concat([original.subarray(0, PREAMBLE), ...parts]);
}

function exportsOf(body) {
  const reader = new Reader(body), exports = [];
  for (let left = reader.number(); left; left--) {
    const from = reader.at, name = reader.name();
    reader.byte();
    reader.number();
    exports.push({ name, entry: Buffer.from(body.subarray(from, reader.at)) });
  }
  return exports;
}

function globalsOf(body) {
  const reader = new Reader(body), globals = [];
  for (let left = reader.number(); left; left--) {
    const from = reader.at, type = reader.byte(), mutable = reader.byte() === 1;
    if (type !== 0x7f || reader.byte() !== 0x41) throw new Error('a global is not a constant i32');
    reader.number();
    if (reader.byte() !== 0x0b) throw new Error('a global is not a constant i32');
    globals.push({ mutable, entry: Buffer.from(body.subarray(from, reader.at)) });
  }
  return globals;
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

/**
 * Let SpiderMonkey collect garbage each time its heap is full.
 *
 * By default it does not for 60 s after the last time. So the objects that a program released when it caught the error
 * would occupy the heap, and each allocation would fail. StarlingMonkey has no option for that parameter.
 */
function collectWheneverFull(buffer) {
  const words = new Uint32Array(buffer), found = [];
  for (let at = words.indexOf(COLLECTOR[0]); at >= 0; at = words.indexOf(COLLECTOR[0], at + 1)) {
    const has = (values, from) => values.every((value, index) => words[from + index] === value);
    if (has(COLLECTOR, at) && has(FULL_PERIOD, at + FULL_PERIOD_AT)) found.push(at + FULL_PERIOD_AT);
  }
  if (found.length !== 1) throw new Error('the parameters of garbage collection are not where they were');
  words.fill(0, found[0], found[0] + FULL_PERIOD.length);
}

/** Return the encoded data segments of a memory: everything that is not a run of at least `gap` zeros. */
function segments(memory, gap = GAP) {
  const encoded = [], words = new Uint32Array(memory.buffer, 0, memory.length / 4);
  let begin = -1, end = 0;
  const close = () => {
    const data = memory.subarray(begin, end);
    encoded.push(Buffer.concat([Buffer.from([0]), constant(begin), Buffer.from(leb(data.length)), data]));
  };
  for (let word = 0; word < words.length; word++) {
    if (!words[word]) continue;
    if (begin >= 0 && word * 4 - end >= gap) {
      close();
      begin = -1;
    }
    if (begin < 0) begin = word * 4;
    end = word * 4 + 4;
  }
  if (begin >= 0) close();
  return encoded.length > MAX_SEGMENTS ? segments(memory, gap * 4) : encoded;
}

/** Return the binary of a module that also exports its mutable globals, as GLOBAL + index. */
function exposeGlobals(bytes, sections, globals) {
  const added = globals.flatMap(({ mutable }, index) => {
    const name = Buffer.from(`${GLOBAL}${index}`);
    return mutable ? [Buffer.from([name.length, ...name, 3, ...leb(index)])] : [];
  });
  return encode(bytes, sections.map(([id, body]) =>
    [id, id === SECTION.export ? vector([...exportsOf(body).map(({ entry }) => entry), ...added]) : body]));
}

function* randomBytes(seed) {
  for (let block = 0; ; block++) yield* createHash('sha256').update(`${block}`).update(seed).digest();
}

function imports(module, wasi, memory, seed) {
  const random = randomBytes(seed);
  let passed = 0n;
  const stat = (name, at, ...args) => {
    const error = wasi.wasiImport[name](...args, at);
    const view = new DataView(memory().buffer);
    for (const field of FILESTAT_VARYING) view.setBigUint64(at + field, 0n, true);
    return error;
  };
  const reproducible = {
    fd_filestat_get: (fd, at) => stat('fd_filestat_get', at, fd),
    path_filestat_get: (fd, flags, path, length, at) => stat('path_filestat_get', at, fd, flags, path, length),
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
  const functions = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    // A function of its own: V8 calls one of node:wasi directly with a receiver that garbage collection may move.
    const call = from === 'wasi_snapshot_preview1'
      ? (reproducible[name] ?? ((...args) => wasi.wasiImport[name](...args)))
      : () => { throw new Error(`${name} of ${from} was called while the module is loaded`); };
    (functions[from] ??= {})[name] = call;
  }
  return functions;
}

/** Run the initialization of a module and return its exports. */
function initialize(bytes, { init, folders, input, env }) {
  const module = new WebAssembly.Module(bytes);
  const seed = createHash('sha256').update(input);
  for (const [, host] of folders) {
    for (const name of readdirSync(host).sort()) {
      if (/\.js$/.test(name)) seed.update(readFileSync(join(host, name)));
    }
  }
  const scratch = mkdtempSync(join(tmpdir(), 'svc-snapshot-'));
  try {
    writeFileSync(join(scratch, 'input'), input);
    const stdin = openSync(join(scratch, 'input'));
    const wasi = new WASI({ version: 'preview1', env, preopens: Object.fromEntries(folders), stdin, returnOnExit: false });
    let instance;
    instance = new WebAssembly.Instance(module, imports(module, wasi, () => instance.exports.memory, seed.digest()));
    wasi.initialize({ exports: { memory: instance.exports.memory } });
    instance.exports._initialize?.();
    instance.exports[init]();
    return instance.exports;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
