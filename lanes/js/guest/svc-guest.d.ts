/** The guest library of svc's js lane; every js resource can import it without installing it. */
declare module '@svc/guest' {
  /** One server-sent event with at least one of the fields. */
  export interface ServerSentEvent {
    /** Text is sent unchanged, line by line; other values as JSON. */
    data?: unknown;
    /** The name of the event (default: `message`). */
    event?: string;
    /** The id that a browser sends as `last-event-id` when it reconnects. */
    id?: string | number;
    /** Milliseconds that a browser waits before it reconnects. */
    retry?: number;
  }

  export interface Events {
    /** Send an event, or just its data; resolves when the client can take the next one. */
    send(event: ServerSentEvent | string | number | boolean): Promise<void>;
    /** Send a comment, which pages ignore. */
    comment(text?: string): Promise<void>;
    /** Aborted when the client has disconnected; `send` rejects from then on. */
    readonly signal: AbortSignal;
  }

  export interface EventStreamInit extends ResponseInit {
    /** Send an empty comment after this many idle milliseconds (default: 15000; 0: never). */
    keepAlive?: number;
  }

  /** Respond with server-sent events; the stream ends when `produce` does. An error aborts the connection. */
  export function eventStream(produce: (events: Events) => void | Promise<void>, init?: EventStreamInit): Response;

  /** Write a piece of a body; resolves when the client can take the next one, rejects when it has disconnected. */
  export type Write = (chunk: string | BufferSource) => Promise<void>;

  /** Respond with a body that is written piece by piece. An error aborts the connection. */
  export function stream(
    produce: (write: Write, context: { readonly signal: AbortSignal }) => void | Promise<void>,
    init?: ResponseInit,
  ): Response;

  /** Respond with a value as JSON. */
  export function json(value: unknown, init?: ResponseInit): Response;

  /** Wait; rejects with the signal's reason if it is aborted. */
  export function sleep(ms: number, signal?: AbortSignal): Promise<void>;

  /** Write a structured record, which is stored with its request. */
  export type Log = (message: string, attributes?: Record<string, unknown>) => void;

  /** Hosted, records go to the telemetry Door, in batches; elsewhere each is a line of JSON on stderr. */
  export const log: {
    readonly trace: Log;
    readonly debug: Log;
    readonly info: Log;
    readonly warn: Log;
    readonly error: Log;
    /** Send the records of the batch, which happens by itself within 20 ms of the first, and at the end. */
    flush(): void;
  };

  /** Hashes of passwords: Argon2id with the parameters that OWASP recommends, computed by the host. */
  export namespace password {
    /** Hash a password with a random salt; resolves with a PHC string to store. */
    function hash(password: string): Promise<string>;
    /** Return whether a password belongs to a hash. Rejects if the hash is not a PHC string of Argon2. */
    function verify(password: string, hash: string): Promise<boolean>;
  }

  export interface FileHttpMetadata {
    contentType?: string;
    contentDisposition?: string;
    contentEncoding?: string;
    contentLanguage?: string;
    cacheControl?: string;
    cacheExpiry?: string | Date;
  }

  /** Etags without quotes, or `*`. */
  export interface FileConditions {
    etagMatches?: string | string[];
    etagDoesNotMatch?: string | string[];
  }

  export interface FileObject {
    readonly key: string;
    readonly size: number;
    readonly etag: string;
    /** The etag with its quotes, for a header field. */
    readonly httpEtag: string;
    readonly uploaded: Date;
    readonly httpMetadata: FileHttpMetadata;
    readonly customMetadata: Record<string, string>;
    /** Set the header fields that were stored with the file. */
    writeHttpMetadata(headers: Headers): void;
  }

  export interface FileBody extends FileObject {
    readonly range: { offset: number; length: number };
    readonly body: ReadableStream<Uint8Array>;
    readonly bodyUsed: boolean;
    arrayBuffer(): Promise<ArrayBuffer>;
    bytes(): Promise<Uint8Array>;
    text(): Promise<string>;
    json<T>(): Promise<T>;
    blob(): Promise<Blob>;
  }

  export type FileContent = ReadableStream | BufferSource | Blob | string | null;

  export interface FileOptions {
    httpMetadata?: FileHttpMetadata | Headers;
    customMetadata?: Record<string, string>;
  }

  export type FileRange = { offset?: number; length?: number } | { suffix: number } | Headers;

  /** A request that the files Door refuses. `code` names the reason, such as `bad-key` or `storage-quota`. */
  export class FilesError extends Error {
    readonly status: number;
    readonly code: string;
    readonly hint?: string;
  }

  /** The files of the project, with the interface of Cloudflare's R2 buckets: bytes are streams of any length. */
  export const files: {
    /** Return the description of a file, or null. */
    head(key: string): Promise<FileObject | null>;

    /** Return a file, or null. If `onlyIf` does not hold, the result has no body. */
    get(key: string, options?: { range?: FileRange }): Promise<FileBody | null>;
    get(
      key: string,
      options: { range?: FileRange; onlyIf: FileConditions | Headers },
    ): Promise<FileBody | FileObject | null>;

    /**
     * Store a file as a whole: an upload that ends early changes nothing. Returns null if `onlyIf` does not hold;
     * `{ etagDoesNotMatch: '*' }` stores it only if the key has no file.
     */
    put(key: string, value: FileContent, options?: FileOptions): Promise<FileObject>;
    put(
      key: string,
      value: FileContent,
      options: FileOptions & { onlyIf: FileConditions | Headers },
    ): Promise<FileObject | null>;

    /** Remove files, which need not exist. */
    delete(keys: string | string[]): Promise<void>;

    /** List files by the bytes of their keys. Keys with the delimiter after the prefix are listed once. */
    list(options?: { prefix?: string; delimiter?: string; cursor?: string; limit?: number }): Promise<{
      objects: FileObject[];
      delimitedPrefixes: string[];
      truncated: boolean;
      cursor?: string;
    }>;

    /** Give a file another key, too. */
    copy(from: string, to: string): Promise<FileObject>;

    /**
     * Return the path of a signed URL on the hosts of the project. `expires` is in seconds, or a text such as `10m`.
     * A PUT has at most `maxBytes`, the content type `type` if it is given, and with `once` creates the file only.
     */
    sign(
      key: string,
      options?: { method?: 'GET' | 'PUT'; expires?: number | string; maxBytes?: number; type?: string; once?: boolean },
    ): Promise<{ url: string }>;

    /** Respond with a file: the host sends it, in part or not at all if the client asks for that. */
    response(key: string, init?: { status?: number; headers?: HeadersInit }): Response;
    readonly Error: typeof FilesError;
  };

  /** Jobs: requests that svc sends later, at least once, with retries. They are rows of the project's tables. */
  export namespace jobs {
    interface Options {
      /** The resource that gets the request (default: the calling one). */
      resource?: string;
      /** When it becomes due: seconds from now, or a text such as `'30s'`, `'10m'`, `'2h'` or `'7d'`. */
      delay?: number | string;
      /** The job is not added while another one with this key waits. */
      key?: string;
      /** How often svc tries (default: 8). Then the job is dead. */
      maxTries?: number;
    }

    /**
     * Add a job: a `POST` to `path`, whose body is the JSON of `body`, or its bytes. `added` is false, and `id` that
     * of the other job, if one with the key waits.
     */
    function add(path: string, body?: unknown, options?: Options): Promise<{ id: string; added: boolean }>;

    /** A statement that adds a job in its transaction: `tables.batch([tables.sql`…`, jobs.sql('/mail', { id })])`. */
    function sql(path: string, body?: unknown, options?: Options): tables.Statement;

    /** Remove a job by its id, or the waiting one with a key; resolves with whether it was there. */
    function remove(job: string | { key: string }): Promise<boolean>;

    /** The error of a refused job: `code` is `bad-request` or `jobs-full`, or one of the tables. */
    class Error extends globalThis.Error {
      readonly status: number;
      readonly code: string;
      readonly detail: string;
      readonly hint?: string;
    }
  }

  /** The tables of the project: SQLite's SQL, without a connection to open or a secret to set. */
  export namespace tables {
    /** null, or a value of a column; a `Date` is sent as a timestamp, plain objects and arrays as JSON text. */
    type Param = string | number | bigint | boolean | null | Date | BufferSource | object;

    /**
     * A value of a row: a `bigint` for an integer beyond the safe range of a number, bytes for a blob, text for a
     * timestamp (ISO 8601, UTC), and for a json column its document.
     */
    type Value = string | number | bigint | boolean | null | Uint8Array | object;

    interface Outcome<Row> {
      /** The number of rows that were inserted, updated or deleted. */
      readonly changes: number;
      /** The rowid of the last inserted row, or 0. */
      readonly lastId: number | bigint;
      /** The rows of a RETURNING clause, or of a query in a batch. */
      readonly rows: Row[];
    }

    /** A statement of a batch, created with `sql`. */
    interface Statement {
      readonly json: string;
    }

    /** The rows of a query: a template, whose values become parameters. */
    function query<Row = Record<string, Value>>(sql: TemplateStringsArray, ...values: Param[]): Promise<Row[]>;
    /** The rows of a query: a text with $1, $2 …, and their values. */
    function query<Row = Record<string, Value>>(sql: string, ...params: Param[]): Promise<Row[]>;

    /** Run a statement that writes: a template, or a text and its parameters. Resolves when the change is on the disk. */
    function exec<Row = Record<string, Value>>(
      sql: TemplateStringsArray | string,
      ...params: Param[]
    ): Promise<Outcome<Row>>;

    /** A statement for `batch`: a template, or a text and its parameters. */
    function sql(sql: TemplateStringsArray | string, ...params: Param[]): Statement;

    /** Run statements in one transaction: all of them, or none. Resolves with a result for each. */
    function batch<Row = Record<string, Value>>(statements: Iterable<Statement>): Promise<Outcome<Row>[]>;

    interface Options {
      /** Apply a write once: a repeated request with this key, at most 255 characters, gets the stored answer. */
      readonly idempotencyKey?: string;
      /** Let a read miss the last writes of other machines of a fleet, instead of waiting for them. */
      readonly staleOk?: boolean;
    }

    /** The functions for a request with options: `tables.withOptions({ staleOk: true }).query(…)`. */
    function withOptions(options: Options): Pick<typeof tables, 'query' | 'exec' | 'batch'>;

    /** The tables' error for a rejected statement; `message` has SQLite's message and the position. */
    class Error extends globalThis.Error {
      /** The HTTP status of the response: 4xx for errors of the program. */
      readonly status: number;
      /** The kind of error: `sql-error`, `constraint`, `bad-parameters` and so on. */
      readonly code: string;
      /** The rule that a row breaks, when the code is `constraint`: `unique`, `not-null`, `check` … */
      readonly constraint?: string;
      readonly title: string;
      readonly detail?: string;
      /** The remedy. */
      readonly hint?: string;
      /** The position in the SQL, in characters from 1. */
      readonly position?: number;
      /** The index of the statement in a batch, from 0. */
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
    /** The number of rows that were inserted, updated or deleted; `rows_written` is the same. */
    changes: number;
    rows_written: number;
    /** The rowid of the last inserted row, or 0. */
    last_row_id: number;
    changed_db: boolean;
    /** The number of rows of the result. */
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
   * The tables of the project with the interface of Cloudflare's D1, for code and packages that use it. Values are
   * as SQLite stores them: 0 and 1 for booleans, text for JSON, an array of bytes for a blob.
   */
  export const d1: {
    prepare(sql: string): D1PreparedStatement;
    /** Run statements in one transaction: all of them, or none. */
    batch<T = unknown>(statements: D1PreparedStatement[]): Promise<D1Result<T>[]>;
    /** Run statements without values, one a line, in one transaction. Migrations change the schema, not this. */
    exec(sql: string): Promise<{ count: number; duration: number }>;
    /** The same tables; every read returns earlier writes. */
    withSession(constraint?: string): {
      prepare(sql: string): D1PreparedStatement;
      batch<T = unknown>(statements: D1PreparedStatement[]): Promise<D1Result<T>[]>;
      getBookmark(): string | null;
    };
    /** Rejects: `svc tables export --all` makes a copy. */
    dump(): Promise<ArrayBuffer>;
  };
}
