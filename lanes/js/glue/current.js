/**
 * The request that an instance answers; it answers one. `event` is set before a dev build evaluates the user's module,
 * `request` after that, and neither while a deploy build evaluates it. `waiting` has the functions that continue
 * operations which began without an event.
 */
export const svcCurrent = { event: undefined, request: undefined, waiting: undefined };
