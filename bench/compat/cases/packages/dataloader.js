// dataloader
import DataLoader from 'dataloader';
import { checks } from '../checks.js';

export default checks({
  'batches': async () => {
    const batches = [];
    const loader = new DataLoader(async (keys) => {
      batches.push(keys);
      return keys.map((key) => key * 2);
    });
    return [await Promise.all([loader.load(1), loader.load(2), loader.load(1)]), batches];
  },
});
