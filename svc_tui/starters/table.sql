-- svc applies each file in this folder once, in the order of the names.
create table "__TABLE__" (
  id integer primary key,
  text text not null,
  created_at timestamp not null default (now())
);
