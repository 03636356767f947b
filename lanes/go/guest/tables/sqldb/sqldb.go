// Package sqldb opens the tables as a database of database/sql, for code of sqlc and packages that take a *sql.DB:
//
//	db := sqldb.Open()
//	row := db.QueryRowContext(ctx, "select name from users where id = ?", id)
//
// There are no transactions: Begin fails. Use tables.Batch, which runs several statements in one.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"svc/guest/tables"
)

// Open returns the tables as a database. It connects to nothing, and need not be closed.
func Open() *sql.DB { return sql.OpenDB(connector{}) }

var errTransaction = errors.New("sqldb: the tables have no transactions over several calls: use tables.Batch")

type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }

func (connector) Driver() driver.Driver { return opener{} }

type opener struct{}

func (opener) Open(string) (driver.Conn, error) { return conn{}, nil }

type conn struct{}

func (conn) Prepare(query string) (driver.Stmt, error) { return statement(query), nil }

func (conn) Close() error { return nil }

func (conn) Begin() (driver.Tx, error) { return nil, errTransaction }

func (conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	params, err := values(args)
	if err != nil {
		return nil, err
	}
	answer, err := tables.QueryRaw(ctx, tables.Text(query), params...)
	if err != nil {
		return nil, err
	}
	return &rows{answer.Columns, answer.Values}, nil
}

func (conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	params, err := values(args)
	if err != nil {
		return nil, err
	}
	answer, err := tables.ExecRaw(ctx, tables.Text(query), params...)
	return result{answer.Result}, err
}

func values(args []driver.NamedValue) ([]any, error) {
	params := make([]any, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, fmt.Errorf("sqldb: the parameter %s has a name: number parameters, as $1, or write ?", arg.Name)
		}
		params[i] = arg.Value
	}
	return params, nil
}

// statement is a prepared statement. The tables store no statements: each execution sends its SQL.
type statement string

func (statement) Close() error { return nil }

func (statement) NumInput() int { return -1 }

func (s statement) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func (s statement) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return conn{}.QueryContext(ctx, string(s), args)
}

func (s statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return conn{}.ExecContext(ctx, string(s), args)
}

func named(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, value := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return list
}

type result struct{ tables.Result }

func (r result) LastInsertId() (int64, error) { return r.LastID, nil }

func (r result) RowsAffected() (int64, error) { return r.Changes, nil }

type rows struct {
	columns []string
	values  [][]any
}

func (r *rows) Columns() []string { return r.columns }

func (r *rows) Close() error { return nil }

func (r *rows) Next(to []driver.Value) error {
	if len(r.values) == 0 {
		return io.EOF
	}
	for i, value := range r.values[0] {
		to[i] = timed(value)
	}
	r.values = r.values[1:]
	return nil
}

// stamp is the format in which the tables store a timestamp.
const stamp = "2006-01-02T15:04:05.000Z"

// timed parses the text of a timestamp, and returns other values unchanged.
func timed(value any) any {
	if text, ok := value.(string); ok && len(text) == len(stamp) {
		if at, err := time.Parse(stamp, text); err == nil {
			return at
		}
	}
	return value
}
