// The decoder of brotli, which needs the whole input.
import { BrotliDecompress } from 'svc:brotli';

const MAX_BYTES = 64 << 20;

/** Pass the decoded bytes of compressed ones to `write`, in pieces. Throws TypeError. */
export function decode(bytes, write) {
  let position = 0, size = 0;
  const input = {
    read(target, at, count) {
      const part = bytes.subarray(position, position + count);
      target.set(part, at);
      position += part.length;
      return part.length;
    },
  };
  const output = {
    buffer: { length: Infinity },
    write(ring, count) {
      size += count;
      if (size > MAX_BYTES) throw new Error(`the decoded data has more than ${MAX_BYTES >> 20} MiB`);
      if (count) write(ring.slice(0, count));
      return count;
    },
  };
  try {
    BrotliDecompress(input, output);
  } catch (error) {
    throw new TypeError(`brotli: ${error.message}`, { cause: error });
  }
}
