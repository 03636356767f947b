// katex
import katex from 'katex';
import { checks } from '../checks.js';

export default checks({
  'formula': () => [katex.renderToString('\\frac{a}{b} + \\sqrt{2}').length, katex.renderToString('x^2', { output: 'mathml' })],
});
