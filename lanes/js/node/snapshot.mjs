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
import { tuneCollector } from './collector.mjs';

process.emitWarning = () => {}; // node calls its WASI experimental
const { WASI } = await import('node:wasi');

// Initialization runs once, so optimized code costs more than it saves. It calls few functions of a known engine.
setFlagsFromString('--liftoff-only');
setFlagsFromString('--wasm-lazy-validation');

const CLOCK = 946_684_800_000_000_000n; // 2000-01-01T00:00:00Z
const REALTIME = 0; // the clock that starts at CLOCK; the others start at 0
const TICK = 1000n; // ns between two readings of a clock
const FILESTAT_VARYING = [0, 8, 40, 48, 56]; // offsets of dev, ino and the times in a filestat
const GLOBAL = 'svc:global:';
const PAGE = 65536;
const GAP = 64; // a shorter run of zeros costs less than another segment: the compiler reads each
const MAX_SEGMENTS = 100_000; // the limit of WebAssembly engines
const SEGMENT_HEADER = 13; // maximum bytes: a flag, the constant of the address, and the size
const SECTION = { memory: 5, global: 6, export: 7, start: 8, data: 11, dataCount: 12 };
const COMPONENT_MODULE = 1; // the id of a section of a component that holds a core module
const PREAMBLE = 8; // bytes before the first section

/**
 * Initialize a module and return its snapshot, as parts of the binary.
 *
 * `folders` are pairs of a path inside the module and a folder of the host, `input` is what the module reads
 * from stdin, `env` its environment, `init` the name of the exported function to call, and `heap` the maximum MiB of
 * objects. Throws what the module throws.
 */
export function snapshot(bytes, run) {
  const sections = sectionsOf(bytes);
  if (sections.some(([id]) => id === SECTION.start)) throw new Error('the module has a start function');
  checkSegments(bodyOf(sections, SECTION.data));
  const state = initialState(withGlobals(bytes), run);
  const hidden = [run.init, '_initialize'];
  state.set(SECTION.export, vector(exportsOf(bodyOf(sections, SECTION.export))
    .filter(({ name }) => !hidden.includes(name))
    .map(({ entry }) => entry)));
  return replaced(bytes, sections, state);
}

/** Return the binary of a module that also exports its mutable globals, as GLOBAL + index. */
export function withGlobals(bytes) {
  const sections = sectionsOf(bytes);
  const added = globalsOf(bodyOf(sections, SECTION.global)).flatMap(({ mutable }, index) => {
    const name = Buffer.from(`${GLOBAL}${index}`);
    return mutable ? [Buffer.from([name.length, ...name, 3, ...leb(index)])] : [];
  });
  const exports = [...exportsOf(bodyOf(sections, SECTION.export)).map(({ entry }) => entry), ...added];
  return Buffer.concat(replaced(bytes, sections, new Map([[SECTION.export, vector(exports)]])));
}

/**
 * Initialize a module of `withGlobals` as `snapshot` does; return the sections with its memory and globals, by id.
 */
export function initialState(bytes, { heap, ...run }) {
  const sections = sectionsOf(bytes);
  const exports = initialize(bytes, run);
  const memory = new Uint8Array(exports.memory.buffer);
  tuneCollector(exports.memory.buffer, heap);
  const reader = new Reader(bodyOf(sections, SECTION.memory), 1), flags = reader.byte();
  reader.number();
  const maximum = reader.rest();
  const globals = globalsOf(bodyOf(sections, SECTION.global)).map(({ mutable, entry }, index) => mutable
    ? Buffer.from([0x7f, 1, ...constant(exports[GLOBAL + index].value)])
    : entry);
  const ranges = rangesOf(memory), count = leb(ranges.length / 2);
  const state = new Map([
    [SECTION.memory, Buffer.from([1, flags, ...leb(memory.length / PAGE), ...maximum])],
    [SECTION.global, vector(globals)],
    [SECTION.dataCount, Buffer.from(count)],
    [SECTION.data, segments(memory, ranges, count)],
  ]);
  const check = exports.check_init();
  if (check !== 0) throw new Error(`the module's exports could not be bound (${check})`);
  return state;
}

/**
 * Return the parts of `component` with the state of its main module, which is the largest one.
 *
 * The main module must be a snapshot of the module that the state is of.
 */
export function withState(component, state) {
  const sections = sectionsOf(component);
  const modules = sections.filter(([id]) => id === COMPONENT_MODULE);
  const main = modules.reduce((a, b) => (b[1].length > a[1].length ? b : a));
  const inner = sectionsOf(main[1]);
  const count = (body) => new Reader(body).number();
  if (count(bodyOf(inner, SECTION.global)) !== count(state.get(SECTION.global))) {
    throw new Error('the template has other globals than the snapshot');
  }
  const module = replaced(main[1], inner, state), size = module.reduce((sum, { length }) => sum + length, 0);
  return [component.subarray(0, PREAMBLE), ...sections.flatMap((section) => section === main
    ? [header(COMPONENT_MODULE, size), ...module]
    : [header(section[0], section[1].length), section[1]])];
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
  rest() { return this.take(this.bytes.length - this.at); }
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

function header(id, size) { return Buffer.from([id, ...leb(size)]); }

/** Return the parts of `original` with other bodies of some sections, by id. They are not copied: it has 12 MB. */
function replaced(original, sections, bodies) {
  return [original.subarray(0, PREAMBLE), ...sections.flatMap(([id, old]) => {
    const body = bodies.get(id) ?? old;
    return [header(id, body.length), body];
  })];
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

/** Return where the data segments of a memory begin and end, in turn: all that is not a run of `gap` zeros. */
function rangesOf(memory, gap = GAP) {
  const ranges = [], words = new Uint32Array(memory.buffer, 0, memory.length / 4);
  let begin = -1, end = 0;
  for (let word = 0; word < words.length; word++) {
    if (!words[word]) continue;
    if (begin >= 0 && word * 4 - end >= gap) {
      ranges.push(begin, end);
      begin = -1;
    }
    if (begin < 0) begin = word * 4;
    end = word * 4 + 4;
  }
  if (begin >= 0) ranges.push(begin, end);
  return ranges.length / 2 > MAX_SEGMENTS ? rangesOf(memory, gap * 4) : ranges;
}

/** Return the body of the data section with segments of a memory. */
function segments(memory, ranges, count) {
  const body = Buffer.allocUnsafe(count.length + ranges.length * SEGMENT_HEADER / 2 + memory.length);
  let at = 0;
  const put = (bytes) => { for (const byte of bytes) body[at++] = byte; };
  put(count);
  for (let index = 0; index < ranges.length; index += 2) {
    const begin = ranges[index], end = ranges[index + 1];
    put([0]);
    put(constant(begin));
    put(leb(end - begin));
    body.set(memory.subarray(begin, end), at);
    at += end - begin;
  }
  return body.subarray(0, at);
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
