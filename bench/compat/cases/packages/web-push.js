// web-push
import webPush from 'web-push';
import { checks } from '../checks.js';

const subscription = (keys) => ({ endpoint: 'https://push.example/send/1', keys });

export default checks({
  'keys': () => {
    const { publicKey, privateKey } = webPush.generateVAPIDKeys();
    return [publicKey.length, privateKey.length];
  },
  'request': () => {
    const { publicKey, privateKey } = webPush.generateVAPIDKeys();
    const keys = { p256dh: publicKey, auth: Buffer.alloc(16, 1).toString('base64url') };
    const vapidDetails = { subject: 'mailto:ada@shop.example', publicKey, privateKey };
    const { method, endpoint, headers, body } = webPush.generateRequestDetails(subscription(keys), 'tea', { vapidDetails });
    return [method, endpoint, Object.keys(headers), body.length];
  },
});
