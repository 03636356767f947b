-- svc applies the files of this folder once each, in the order of their names. To change a table, add a file.
create table members (
  id integer primary key,
  name text not null unique collate nocase check (length(name) between 2 and 30),
  password text not null, -- Argon2id, as a PHC string
  joined timestamp not null default (now())
);

-- The id is the SHA-256 of the token in the cookie, so a copy of this table opens no session.
create table sessions (
  id text not null primary key,
  member integer not null references members (id) on delete cascade,
  expires timestamp not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+30 days'))
) without rowid;

-- Attempts to log in, also for names without a member.
create table attempts (
  id integer primary key,
  name text not null collate nocase,
  expires timestamp not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+15 minutes'))
);
create index attempts_by_name on attempts (name);
