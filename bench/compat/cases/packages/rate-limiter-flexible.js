// rate-limiter-flexible
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { checks } from '../checks.js';

export default checks({
  'limit': async () => { const limiter = new RateLimiterMemory({ points: 2, duration: 60 }); await limiter.consume('a', 2); return limiter.consume('a').catch(({ remainingPoints }) => ['refused', remainingPoints]); },
});
