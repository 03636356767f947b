// Timers in the order of the times when they are due. The engine runs those that are due in the order of their creation.
import { define } from './define.js';
import { svcGuarded } from './failure.js';

const { setTimeout: wake, clearTimeout: forget } = globalThis;
const timers = [];
let last = 0;

/** Add a timer, ordered by the time when it is due, with an alarm of the engine. */
function start(timer) {
  timer.due = performance.now() + timer.delay;
  const alarm = { timer };
  timer.alarm = alarm;
  alarm.id = wake(() => ring(alarm), timer.delay);
  const later = timers.findIndex(({ due }) => due > timer.due);
  timers.splice(later < 0 ? timers.length : later, 0, timer);
}

/** Run the earliest timer. If the alarm is that of another one, the two exchange their alarms: both are due. */
function ring(alarm) {
  const { timer } = alarm, first = timers.shift();
  first.alarm.timer = timer;
  timer.alarm = first.alarm;
  if (first.repeats) start(first);
  first.run();
}

function timer(repeats) {
  return (callback, delay = 0, ...values) => {
    if (typeof callback !== 'function') return wake(callback, delay);
    last += 1;
    const run = svcGuarded(() => callback(...values));
    start({ id: last, run, delay: Number(delay) > 0 ? Number(delay) : 0, repeats });
    return last;
  };
}

function clear(id) {
  const at = timers.findIndex((each) => each.id === Number(id));
  if (at >= 0) forget(timers.splice(at, 1)[0].alarm.id);
}

define(globalThis, {
  setTimeout: timer(false),
  setInterval: timer(true),
  clearTimeout: clear,
  clearInterval: clear,
});
