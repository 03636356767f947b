-- svc applies each file in this folder once, in the order of the names.
-- To change the table later, add a file such as 0002-add-a-color.sql.
create table notes (
  id integer primary key,
  text text not null check (length(text) between 1 and 280),
  created_at timestamp not null default (now())
);
