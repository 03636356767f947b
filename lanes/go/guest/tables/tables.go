// Package tables reads and writes the tables of the program's project. There is nothing to
// connect to and no secret to set:
//
//	rows, err := tables.Query(ctx, "select id, name from users where name = $1", name)
//	result, err := tables.Exec(ctx, "insert into users (name) values ($1)", name)
//
// The dialect is SQLite's. Parameters are $1, $2 and so on, in any order and as often as needed, or ?; SQL is text
// in the program's source, so user input can never become SQL.
//
// It works beside svc/guest and svc/guest/lite alike.
package tables

import "context"

// Text is SQL. Constants convert to it implicitly, so that plain calls contain only the program's own text. SQL
// that is built at run time (a choice of columns, an order) needs an explicit conversion, visible at the
// call: tables.Text(sql). Values belong into parameters.
type Text string

// Row is a row as a map of its columns. Its values are nil, bool, int64, float64, string, []byte for a
// blob, and for a json column its document, with int64 or float64 for numbers. Timestamps are
// text, ISO 8601 in UTC.
type Row map[string]any

// Result is the result of a statement.
type Result struct {
	// Changes is the number of rows that were inserted, updated or deleted.
	Changes int64
	// LastID is the rowid of the last inserted row, or 0.
	LastID int64
	// Rows are the rows of a RETURNING clause.
	Rows []Row
}

// Statement is one of the statements of a Batch.
type Statement struct {
	SQL    Text
	Params []any
}

// Prepare returns a statement for Batch.
func Prepare(sql Text, params ...any) Statement { return Statement{sql, params} }

// Query returns the rows of a query.
//
// A parameter is nil, a boolean, a number, a string, []byte for a blob, a time.Time, a value with a MarshalText
// method, or a pointer to one of these, where nil is null. Anything else is sent as JSON text, for json columns.
//
// Errors of the tables are *Error.
func Query(ctx context.Context, sql Text, params ...any) ([]Row, error) {
	return QueryAs[Row](ctx, sql, params...)
}

// QueryAs returns the rows of a query as values of a type, usually a struct. Columns
// become fields as in encoding/json: by the field's tag, or its name, ignoring case. A time.Time
// accepts a timestamp, []byte a blob, int64 every integer, and a pointer accepts null as nil.
//
//	type User struct {
//		ID    int64
//		Since time.Time `json:"created_at"`
//	}
//	users, err := tables.QueryAs[User](ctx, "select id, created_at from users")
func QueryAs[T any](ctx context.Context, sql Text, params ...any) ([]T, error) {
	var answer result[T]
	err := ask(ctx, "/v1/query", Statement{sql, params}, &answer)
	return answer.Rows, err
}

// Arrays are rows as arrays of values. Columns has their names, which may repeat.
type Arrays struct {
	Columns []string
	Rows    [][]any
}

// QueryArrays returns the rows of a query as arrays, for joins whose columns share a name. The
// values are those of a Row.
func QueryArrays(ctx context.Context, sql Text, params ...any) (Arrays, error) {
	var answer arrays
	err := ask(ctx, "/v1/query", formed{Statement{sql, params}, `,"rows":"arrays"}`}, &answer)
	return Arrays{answer.Columns, answer.Rows}, err
}

// Exec runs a statement that writes. When it returns without an error, the changes are on the disk.
func Exec(ctx context.Context, sql Text, params ...any) (Result, error) {
	var answer result[Row]
	err := ask(ctx, "/v1/exec", Statement{sql, params}, &answer)
	return resultOf(answer), err
}

// ExecAs runs a statement that writes and returns the rows of its RETURNING clause, as QueryAs does.
func ExecAs[T any](ctx context.Context, sql Text, params ...any) ([]T, error) {
	var answer result[T]
	err := ask(ctx, "/v1/exec", Statement{sql, params}, &answer)
	return answer.Rows, err
}

// Batch runs statements in one transaction: all of them, or none. It returns a result for each; for a
// query, it has the rows.
//
//	_, err := tables.Batch(ctx,
//		tables.Prepare("update accounts set cents = cents - $1 where id = $2", cents, from),
//		tables.Prepare("update accounts set cents = cents + $1 where id = $2", cents, to),
//	)
func Batch(ctx context.Context, statements ...Statement) ([]Result, error) {
	var answer results
	if err := ask(ctx, "/v1/batch", batch(statements), &answer); err != nil {
		return nil, err
	}
	results := make([]Result, len(answer.Results))
	for i, each := range answer.Results {
		results[i] = resultOf(each)
	}
	return results, nil
}

func resultOf(answer result[Row]) Result { return Result{answer.Changes, answer.LastID, answer.Rows} }
