// shiki
import { createHighlighterCore } from 'shiki/core';
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript';
import json from 'shiki/langs/json.mjs';
import rust from 'shiki/langs/rust.mjs';
import nord from 'shiki/themes/nord.mjs';
import { checks } from '../checks.js';

const highlighter = () =>
  createHighlighterCore({ themes: [nord], langs: [json, rust], engine: createJavaScriptRegexEngine() });

export default checks({
  'JSON': async () => (await highlighter()).codeToHtml('{"a": [1, "ü"]}', { lang: 'json', theme: 'nord', tokenizeTimeLimit: 0 }),
  'Rust': async () => (await highlighter()).codeToHtml('fn main() { let x: u8 = 1; }', { lang: 'rust', theme: 'nord', tokenizeTimeLimit: 0 }),
});
