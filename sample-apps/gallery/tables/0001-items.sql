-- The bytes of an item are files: originals/ID, and thumbs/ID for an image.
create table items (
  id integer primary key autoincrement, -- Never used again, so neither are the keys of its files.
  name text not null check (length(name) between 1 and 200),
  type text not null,
  size integer not null,
  state text not null default 'uploading' check (state in ('uploading', 'resizing', 'ready', 'failed')),
  width integer,
  height integer,
  error text,
  added_at timestamp not null default (now())
);
