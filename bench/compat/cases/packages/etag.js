// etag
import etag from 'etag';
import { checks } from '../checks.js';

export default checks({
  'tags': () => [etag('tea'), etag(Buffer.from('tea'), { weak: true }), etag('')],
});
