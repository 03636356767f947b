// grammy
import { Bot, webhookCallback } from 'grammy';
import { checks } from '../checks.js';

export default checks({
  'webhook': async () => { const bot = new Bot('1:a', { botInfo: { id: 1, is_bot: true, first_name: 'b', username: 'b' } }); const seen = []; bot.on('message:text', ({ message }) => { seen.push(message.text); }); const request = new Request('http://a.example/', { method: 'POST', body: JSON.stringify({ update_id: 1, message: { message_id: 1, date: 1, text: 'tea', chat: { id: 1, type: 'private' } } }) }); const answer = await webhookCallback(bot, 'std/http')(request); return [answer.status, seen]; },
});
