/** The guest library of svc's js lane; it is there in every js Resource and is not installed. */
declare module '@svc/guest' {
  /** One server-sent event; at least one of its fields is given. */
  export interface ServerSentEvent {
    /** Text is sent as it is, line by line; anything else as JSON. */
    data?: unknown;
    /** The name that a page listens for; `message` without it. */
    event?: string;
    /** What a browser that comes back sends as `last-event-id`. */
    id?: string | number;
    /** Milliseconds that a browser waits before it comes back. */
    retry?: number;
  }

  export interface Events {
    /** Send an event, or just its data; resolves when the client can take the next one. */
    send(event: ServerSentEvent | string | number | boolean): Promise<void>;
    /** Send a comment, which pages do not see. */
    comment(text?: string): Promise<void>;
    /** Aborted when the client has gone; `send` rejects from then on. */
    readonly signal: AbortSignal;
  }

  export interface EventStreamInit extends ResponseInit {
    /** Send an empty comment after this many quiet milliseconds; 15000 unless given, 0 for never. */
    keepAlive?: number;
  }

  /** Answer with server-sent events; the stream ends when `produce` does. An error cuts the connection. */
  export function eventStream(produce: (events: Events) => void | Promise<void>, init?: EventStreamInit): Response;

  /** Write a piece of a body; resolves when the client can take the next one, rejects when it has gone. */
  export type Write = (chunk: string | BufferSource) => Promise<void>;

  /** Answer with a body that is written piece by piece. An error cuts the connection. */
  export function stream(
    produce: (write: Write, context: { readonly signal: AbortSignal }) => void | Promise<void>,
    init?: ResponseInit,
  ): Response;

  /** Answer with a value as JSON. */
  export function json(value: unknown, init?: ResponseInit): Response;

  /** Wait; rejects with the signal's reason when that is aborted. */
  export function sleep(ms: number, signal?: AbortSignal): Promise<void>;

  /** Write a record of the timeline: one line of JSON on stderr. */
  export type Log = (message: string, attributes?: Record<string, unknown>) => void;

  export const log: { readonly debug: Log; readonly info: Log; readonly warn: Log; readonly error: Log };
}
