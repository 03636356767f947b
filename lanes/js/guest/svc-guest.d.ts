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

  /** Write a structured record, which is kept with the request that it belongs to. */
  export type Log = (message: string, attributes?: Record<string, unknown>) => void;

  /** Hosted, records go to the telemetry Door, in batches; elsewhere each is a line of JSON on stderr. */
  export const log: {
    readonly trace: Log;
    readonly debug: Log;
    readonly info: Log;
    readonly warn: Log;
    readonly error: Log;
    /** Send the records that wait, which happens by itself within 20 ms of the first, and at the end. */
    flush(): void;
  };

  /** Hashes of passwords: Argon2id with the parameters that OWASP recommends, computed by the host. */
  export namespace password {
    /** Hash a password with a random salt; resolves with a PHC string to store. */
    function hash(password: string): Promise<string>;
    /** Return whether a password belongs to a hash. Rejects if the hash is not a PHC string of Argon2. */
    function verify(password: string, hash: string): Promise<boolean>;
  }

  /** The tables of the Project: SQLite's SQL, without a connection to make or a secret to set. */
  export namespace tables {
    /** null, or what a column can hold; a `Date` is sent as a timestamp, plain objects and arrays as JSON text. */
    type Param = string | number | bigint | boolean | null | Date | BufferSource | object;

    /**
     * A value of a row: a `bigint` for an integer that a number does not hold, bytes for a blob, text for a
     * timestamp (ISO 8601, UTC), and for a json column whatever its document is.
     */
    type Value = string | number | bigint | boolean | null | Uint8Array | object;

    interface Outcome<Row> {
      /** How many rows were inserted, updated or deleted. */
      readonly changes: number;
      /** The rowid of the last row that was inserted; without one, it is 0. */
      readonly lastId: number | bigint;
      /** The rows of a RETURNING clause, or of a statement in a batch that reads. */
      readonly rows: Row[];
    }

    /** A statement of a batch, made with `sql`. */
    interface Statement {
      readonly json: string;
    }

    /** The rows of a statement that reads: a template, whose values become parameters. */
    function query<Row = Record<string, Value>>(sql: TemplateStringsArray, ...values: Param[]): Promise<Row[]>;
    /** The rows of a statement that reads: a text with $1, $2 …, and their values. */
    function query<Row = Record<string, Value>>(sql: string, ...params: Param[]): Promise<Row[]>;

    /** Run a statement that writes: a template, or a text and its parameters. Resolves when it is on the disk. */
    function exec<Row = Record<string, Value>>(
      sql: TemplateStringsArray | string,
      ...params: Param[]
    ): Promise<Outcome<Row>>;

    /** A statement for `batch`: a template, or a text and its parameters. */
    function sql(sql: TemplateStringsArray | string, ...params: Param[]): Statement;

    /** Run statements in one transaction: all of them, or none. There is an outcome for each. */
    function batch<Row = Record<string, Value>>(statements: Iterable<Statement>): Promise<Outcome<Row>[]>;

    /** What the tables refuse; `message` has SQLite's words and the place. */
    class Error extends globalThis.Error {
      /** The HTTP status of the answer: 4xx for what the program can change. */
      readonly status: number;
      /** The kind of error: `sql-error`, `constraint`, `bad-parameters` and so on. */
      readonly code: string;
      /** The rule that a row breaks, when the code is `constraint`: `unique`, `not-null`, `check` … */
      readonly constraint?: string;
      readonly title: string;
      readonly detail?: string;
      /** What to do about it. */
      readonly hint?: string;
      /** Where in the SQL it is, counted in characters from 1. */
      readonly position?: number;
      /** The number of the statement in a batch, from 0. */
      readonly statement?: number;
    }
  }

  /** A statement of D1. `bind` returns a new one, with values for its `?` or `?1`. */
  export interface D1PreparedStatement {
    bind(...values: unknown[]): D1PreparedStatement;
    /** The rows as objects; of columns with one name, the last. Runs statements that write, too. */
    all<T = Record<string, unknown>>(): Promise<D1Result<T>>;
    run<T = Record<string, unknown>>(): Promise<D1Result<T>>;
    /** The first row, or its value of a column; null without rows. */
    first<T = unknown>(column: string): Promise<T | null>;
    first<T = Record<string, unknown>>(): Promise<T | null>;
    /** The rows as arrays, with `columnNames` after an array of the names. */
    raw<T = unknown[]>(options: { columnNames: true }): Promise<[string[], ...T[]]>;
    raw<T = unknown[]>(options?: { columnNames?: false }): Promise<T[]>;
  }

  export interface D1Meta {
    /** Milliseconds. */
    duration: number;
    /** How many rows were inserted, updated or deleted; `rows_written` is the same. */
    changes: number;
    rows_written: number;
    /** The rowid of the last row that was inserted; without one, it is 0. */
    last_row_id: number;
    changed_db: boolean;
    /** How many rows the result has. */
    rows_read: number;
    /** Always 0. */
    size_after: number;
    [key: string]: unknown;
  }

  export interface D1Result<T = unknown> {
    success: true;
    results: T[];
    meta: D1Meta;
    error?: never;
  }

  /**
   * The tables of the Project with the interface of Cloudflare's D1, for code and packages that use it. Values are
   * as SQLite stores them: 0 and 1 for booleans, text for JSON, an array of bytes for a blob.
   */
  export const d1: {
    prepare(sql: string): D1PreparedStatement;
    /** Run statements in one transaction: all of them, or none. */
    batch<T = unknown>(statements: D1PreparedStatement[]): Promise<D1Result<T>[]>;
    /** Run statements without values, one a line, in one transaction. Migrations change the schema, not this. */
    exec(sql: string): Promise<{ count: number; duration: number }>;
    /** The same tables; every read sees what was written before. */
    withSession(constraint?: string): {
      prepare(sql: string): D1PreparedStatement;
      batch<T = unknown>(statements: D1PreparedStatement[]): Promise<D1Result<T>[]>;
      getBookmark(): string | null;
    };
    /** Rejects: `svc tables export --all` makes a copy. */
    dump(): Promise<ArrayBuffer>;
  };
}
