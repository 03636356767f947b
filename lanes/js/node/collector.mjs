// Parameters of SpiderMonkey's garbage collector, in the memory of a snapshot. Their values are for browsers, and
// StarlingMonkey has no options for them.
const MIB = 2 ** 20;
/** Places in GCSchedulingTunables, in words. */
const HEAP = 0, GROWTH = 12, BUFFERS = 18, PERIOD = 30;
/** The values there. */
const KNOWN = {
  [HEAP]: [32 * MIB, MIB / 4, 64 * MIB, 27 * MIB, 100 * MIB, 500 * MIB], // of the heap, the nursery, and thresholds
  [GROWTH]: doubles(1.5, 3, 1.5), // since a collection, that starts the next
  [BUFFERS]: [38 * MIB], // least bytes of array buffers that start a collection
  [PERIOD]: [0xf8475800, 0xd], // least time between collections because the heap is full: 60 s in ns
};
/** Thresholds of a zone: of buffers, and 6 words before of the heap. */
const ZONE = [57 * MIB, 121 * MIB, 0xffffffff], ZONE_HEAP = -6;
const NEW_GROWTH = 1.2, NEW_BUFFERS = 16 * MIB, HEAP_MARGIN = 1.1;
const HEAP_START = KNOWN[HEAP][3];

function doubles(...values) {
  return [...new Uint32Array(Float64Array.from(values).buffer)];
}

function placesOf(words, values) {
  const places = [];
  for (let at = words.indexOf(values[0]); at >= 0; at = words.indexOf(values[0], at + 1)) {
    if (values.every((value, index) => words[at + index] === value)) places.push(at);
  }
  return places;
}

/**
 * Let the heap have `heap` MiB, and collect garbage earlier.
 *
 * By default, 57 MiB of array buffers are garbage before a collection, or half of those in use, which does not fit into
 * the memory of a guest. And a full heap is collected once a minute: the objects that a program released when it caught
 * the error would occupy the heap, and each allocation would fail.
 */
export function tuneCollector(buffer, heap) {
  const words = new Uint32Array(buffer);
  const [place, ...others] = placesOf(words, KNOWN[HEAP]), zones = placesOf(words, ZONE);
  const known = Object.entries(KNOWN).every(([at, values]) => values.every((value, index) => words[place + +at + index] === value));
  if (others.length || !known || !zones.length) throw new Error('the parameters of garbage collection are not where they were');
  words[place + HEAP] = heap * MIB;
  words.set(doubles(NEW_GROWTH, NEW_GROWTH, NEW_GROWTH), place + GROWTH);
  words[place + BUFFERS] = NEW_BUFFERS;
  words.fill(0, place + PERIOD, place + PERIOD + KNOWN[PERIOD].length);
  for (const zone of zones) {
    words[zone] = NEW_BUFFERS * NEW_GROWTH;
    words[zone + ZONE_HEAP] = Math.min(HEAP_START * NEW_GROWTH, (heap * MIB) / HEAP_MARGIN);
  }
}
