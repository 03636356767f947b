-- Files in this folder are applied once each, in the order of their names. To change a table later, add a file.
create table entries (
  id integer primary key,
  lane text not null check (lane in ('js', 'go', 'rust')),
  author text not null check (length(author) between 1 and 40),
  message text not null check (length(message) between 1 and 280),
  hearts integer not null default 0,
  written_at timestamp not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
