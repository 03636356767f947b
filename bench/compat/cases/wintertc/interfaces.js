// interfaces
import { checks, equal } from '../checks.js';

function check(name) {
  const constructor = globalThis[name];
  equal([typeof constructor, constructor?.name], ['function', name]);
}

export default checks({
  'AbortController': () => check('AbortController'),
  'AbortSignal': () => check('AbortSignal'),
  'Blob': () => check('Blob'),
  'ByteLengthQueuingStrategy': () => check('ByteLengthQueuingStrategy'),
  'CompressionStream': () => check('CompressionStream'),
  'CountQueuingStrategy': () => check('CountQueuingStrategy'),
  'Crypto': () => check('Crypto'),
  'CryptoKey': () => check('CryptoKey'),
  'CustomEvent': () => check('CustomEvent'),
  'DOMException': () => check('DOMException'),
  'DecompressionStream': () => check('DecompressionStream'),
  'ErrorEvent': () => check('ErrorEvent'),
  'Event': () => check('Event'),
  'EventTarget': () => check('EventTarget'),
  'File': () => check('File'),
  'FormData': () => check('FormData'),
  'Headers': () => check('Headers'),
  'MessageChannel': () => check('MessageChannel'),
  'MessageEvent': () => check('MessageEvent'),
  'MessagePort': () => check('MessagePort'),
  'PromiseRejectionEvent': () => check('PromiseRejectionEvent'),
  'ReadableByteStreamController': () => check('ReadableByteStreamController'),
  'ReadableStream': () => check('ReadableStream'),
  'ReadableStreamBYOBReader': () => check('ReadableStreamBYOBReader'),
  'ReadableStreamBYOBRequest': () => check('ReadableStreamBYOBRequest'),
  'ReadableStreamDefaultController': () => check('ReadableStreamDefaultController'),
  'ReadableStreamDefaultReader': () => check('ReadableStreamDefaultReader'),
  'Request': () => check('Request'),
  'Response': () => check('Response'),
  'SubtleCrypto': () => check('SubtleCrypto'),
  'TextDecoder': () => check('TextDecoder'),
  'TextDecoderStream': () => check('TextDecoderStream'),
  'TextEncoder': () => check('TextEncoder'),
  'TextEncoderStream': () => check('TextEncoderStream'),
  'TransformStream': () => check('TransformStream'),
  'TransformStreamDefaultController': () => check('TransformStreamDefaultController'),
  'URL': () => check('URL'),
  'URLPattern': () => check('URLPattern'),
  'URLSearchParams': () => check('URLSearchParams'),
  'WritableStream': () => check('WritableStream'),
  'WritableStreamDefaultController': () => check('WritableStreamDefaultController'),
  'WritableStreamDefaultWriter': () => check('WritableStreamDefaultWriter'),
  'WebAssembly': () => equal(['Module', 'Instance', 'Memory', 'Table', 'Global'].map((name) => typeof WebAssembly[name]), Array(5).fill('function')),
});
