// resend
import { Resend } from 'resend';
import { checks } from '../checks.js';

export default checks({
  'send': async (env) => (await new Resend('re_x', { baseUrl: env.UPSTREAM }).emails.send({ from: 'a@shop.example', to: 'b@shop.example', subject: 'tea', html: '<p>hi' })).data,
});
