// web-push
import webPush from 'web-push';
import { checks } from '../checks.js';

export default checks({
  'keys': () => {
    const { publicKey, privateKey } = webPush.generateVAPIDKeys();
    return [publicKey.length, privateKey.length];
  },
});
