-- svc applies each file in this folder once, in the order of the names.
create table messages (
  number integer primary key,
  id text not null unique, -- The sender's id: a message that is sent again is stored once.
  body text not null,
  state text not null default 'waiting' check (state in ('waiting', 'done', 'failed')),
  tries integer not null default 0,
  error text,
  amount integer not null default 0,
  received_at timestamp not null default (now())
);
create index messages_by_time on messages (received_at);

create table reports (
  at timestamp not null primary key,
  received integer not null,
  done integer not null,
  failed integer not null,
  amount integer not null
) without rowid;
