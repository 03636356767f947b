// @slack/web-api
import { WebClient } from '@slack/web-api';
import { checks } from '../checks.js';

export default checks({
  'call': async (env) => { const client = new WebClient('xoxb', { slackApiUrl: `${env.UPSTREAM}/`, retryConfig: { retries: 0 }, adapter: 'fetch' }); return client.chat.postMessage({ channel: 'a', text: 'tea' }).catch(({ code }) => code); },
});
