// sucrase
import { transform } from 'sucrase';
import { checks } from '../checks.js';

export default checks({
  'TypeScript': () => transform('const a: number = <b>{x}</b> as any;', { transforms: ['typescript', 'jsx'], production: true }).code,
});
