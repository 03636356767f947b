// Code in the form that sqlc v1.30.0 generates for SQLite.

package main

import (
	"context"
	"database/sql"
	"time"
)

type DBTX interface {
	ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...interface{}) *sql.Row
}

func New(db DBTX) *Queries {
	return &Queries{db: db}
}

type Queries struct {
	db DBTX
}

type Author struct {
	ID     int64
	Name   string
	Bio    sql.NullString
	Active bool
	Photo  []byte
	Born   time.Time
}

const createAuthor = `-- name: CreateAuthor :one
INSERT INTO authors (name, bio, active, photo, born) VALUES (?, ?, ?, ?, ?) RETURNING id, name, bio, active, photo, born
`

type CreateAuthorParams struct {
	Name   string
	Bio    sql.NullString
	Active bool
	Photo  []byte
	Born   time.Time
}

func (q *Queries) CreateAuthor(ctx context.Context, arg CreateAuthorParams) (Author, error) {
	row := q.db.QueryRowContext(ctx, createAuthor,
		arg.Name,
		arg.Bio,
		arg.Active,
		arg.Photo,
		arg.Born,
	)
	var i Author
	err := row.Scan(
		&i.ID,
		&i.Name,
		&i.Bio,
		&i.Active,
		&i.Photo,
		&i.Born,
	)
	return i, err
}

const getAuthor = `-- name: GetAuthor :one
SELECT id, name, bio, active, photo, born FROM authors WHERE id = ? LIMIT 1
`

func (q *Queries) GetAuthor(ctx context.Context, id int64) (Author, error) {
	row := q.db.QueryRowContext(ctx, getAuthor, id)
	var i Author
	err := row.Scan(
		&i.ID,
		&i.Name,
		&i.Bio,
		&i.Active,
		&i.Photo,
		&i.Born,
	)
	return i, err
}

const listAuthors = `-- name: ListAuthors :many
SELECT id, name, bio, active, photo, born FROM authors ORDER BY name
`

func (q *Queries) ListAuthors(ctx context.Context) ([]Author, error) {
	rows, err := q.db.QueryContext(ctx, listAuthors)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []Author
	for rows.Next() {
		var i Author
		if err := rows.Scan(
			&i.ID,
			&i.Name,
			&i.Bio,
			&i.Active,
			&i.Photo,
			&i.Born,
		); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}

const renameAuthor = `-- name: RenameAuthor :execrows
UPDATE authors SET name = ? WHERE id = ?
`

type RenameAuthorParams struct {
	Name string
	ID   int64
}

func (q *Queries) RenameAuthor(ctx context.Context, arg RenameAuthorParams) (int64, error) {
	result, err := q.db.ExecContext(ctx, renameAuthor, arg.Name, arg.ID)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
