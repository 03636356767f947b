// A route for each thing that svc/guest/tables offers.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"svc/guest"
	"svc/guest/password"
	"svc/guest/tables"
)

func main() {
	http.HandleFunc("/types", types)
	http.HandleFunc("/nulls", nulls)
	http.HandleFunc("/order", order)
	http.HandleFunc("/arrays", arrays)
	http.HandleFunc("/hostile", hostile)
	http.HandleFunc("/exec", exec)
	http.HandleFunc("/batch", batch)
	http.HandleFunc("/options", options)
	http.HandleFunc("/errors", failures)
	http.HandleFunc("/unfit", unfit)
	http.HandleFunc("/misfit", misfit)
	http.HandleFunc("/password", passwords)
	guest.Serve(nil)
}

type document struct {
	List []any  `json:"list"`
	Text string `json:"text"`
}

type thing struct {
	ID int64
	I  int64
	R  float64
	T  string
	B  bool
	At time.Time
	J  document
	D  []byte
}

type level int8

var (
	moment = time.Date(2026, 1, 31, 13, 34, 56, 789_000_000, time.FixedZone("", 3600))
	blob   = []byte{0, 255, 16}
)

const text = "ü\"\\\n\x00😀"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func answer(w http.ResponseWriter, value any) { must(0, json.NewEncoder(w).Encode(value)) }

func types(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	wrong := []string{}
	check := func(name string, ok bool, found any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: %#v", name, found))
		}
	}
	must(tables.Exec(ctx, "insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)",
		int64(math.MinInt64), 1.5e300, text, true, moment, document{[]any{1, 2.5, nil}, "ü"}, blob))
	found := must(tables.QueryAs[thing](ctx, "select * from things"))[0]
	check("id", found.ID == 1, found.ID)
	check("i", found.I == math.MinInt64, found.I)
	check("r", found.R == 1.5e300, found.R)
	check("t", found.T == text, found.T)
	check("b", found.B, found.B)
	check("at", found.At.Equal(moment), found.At)
	check("j", found.J.Text == "ü" && len(found.J.List) == 3, found.J)
	check("d", bytes.Equal(found.D, blob), found.D)

	row := must(tables.Query(ctx, "select * from things"))[0]
	check("row i", row["i"] == int64(math.MinInt64), row["i"])
	check("row r", row["r"] == 1.5e300, row["r"])
	check("row t", row["t"] == text, row["t"])
	check("row b", row["b"] == true, row["b"])
	check("row at", row["at"] == "2026-01-31T12:34:56.789Z", row["at"])
	list, _ := row["j"].(map[string]any)["list"].([]any)
	check("row j", len(list) == 3 && list[0] == int64(1) && list[1] == 2.5 && list[2] == nil, row["j"])
	taken, _ := row["d"].([]byte)
	check("row d", bytes.Equal(taken, blob), row["d"])

	seven, none := 7, (*string)(nil)
	row = must(tables.Query(ctx, "select $1 as a, $2 as b, $3 as c, $4 as d, $5 as e, $6 as f, $7 as g, $8 as h",
		level(-1), uint64(math.MaxInt64), &seven, none, netip.MustParseAddr("::1"), json.RawMessage(`{"a":1}`),
		2.0, []int{1, 2}))[0]
	check("a", row["a"] == int64(-1), row["a"])
	check("b", row["b"] == int64(math.MaxInt64), row["b"])
	check("c", row["c"] == int64(7), row["c"])
	check("d", row["d"] == nil, row["d"])
	check("e", row["e"] == "::1", row["e"])
	check("f", row["f"] == `{"a":1}`, row["f"])
	check("g", row["g"] == 2.0, row["g"])
	check("h", row["h"] == "[1,2]", row["h"])
	answer(w, wrong)
}

func nulls(w http.ResponseWriter, r *http.Request) {
	must(tables.Exec(r.Context(), "insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)",
		nil, nil, nil, nil, (*time.Time)(nil), nil, []byte(nil)))
	wrong := []string{}
	for name, value := range must(tables.Query(r.Context(), "select i, r, t, b, at, j, d from things"))[0] {
		if value != nil {
			wrong = append(wrong, name)
		}
	}
	optional := must(tables.QueryAs[struct {
		I  *int64
		At *time.Time
	}](r.Context(), "select i, at from things"))[0]
	if optional.I != nil || optional.At != nil {
		wrong = append(wrong, "pointers")
	}
	answer(w, wrong)
}

func order(w http.ResponseWriter, r *http.Request) {
	answer(w, must(tables.Query(r.Context(), "select $2 as b, $1 as a, $1 as again", "first", "second")))
}

func arrays(w http.ResponseWriter, r *http.Request) {
	must(tables.Exec(r.Context(), "insert into things (d) values (?1), (?1)", blob))
	found := must(tables.QueryArrays(r.Context(),
		"select a.id, b.id, ? as x, a.d from things a join things b on b.id = a.id + 1", "first"))
	row := found.Rows[0]
	taken, _ := row[3].([]byte)
	first, ok := row[0].(int64)
	answer(w, []any{found.Columns, []any{row[0], row[1], row[2], ok && first == 1 && bytes.Equal(taken, blob)}})
}

func hostile(w http.ResponseWriter, r *http.Request) {
	name := "'; drop table users; --"
	must(tables.Exec(r.Context(), "insert into users (name) values ($1)", name))
	answer(w, must(tables.Query(r.Context(), "select name from users where name = $1", name)))
}

func wire(result tables.Result) any {
	if result.Rows == nil {
		result.Rows = []tables.Row{}
	}
	return map[string]any{"changes": result.Changes, "last_id": result.LastID, "rows": result.Rows}
}

func exec(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	inserted := must(tables.Exec(ctx, "insert into users (id, name) values ($1, $2)", 7, "ada"))
	updated := must(tables.Exec(ctx, "update users set age = $2 where name = $1", "ada", 36))
	returned := must(tables.Exec(ctx, "insert into users (name) values ($1) returning id, name", "bob"))
	type user struct{ ID int64 }
	if eve := must(tables.ExecAs[user](ctx, "insert into users (name) values ('eve') returning id")); eve[0].ID != 9 {
		panic(eve)
	}
	answer(w, []any{wire(inserted), wire(updated), wire(returned)})
}

func told(err error) any {
	var refused *tables.Error
	if !errors.As(err, &refused) {
		return fmt.Sprint(err)
	}
	return map[string]any{
		"status": refused.Status, "code": refused.Code, "constraint": refused.Constraint, "message": refused.Error(),
		"position": refused.Position, "statement": refused.Statement,
	}
}

func batch(w http.ResponseWriter, r *http.Request) {
	insert := func(name string) tables.Statement {
		return tables.Prepare("insert into users (name) values ($1)", name)
	}
	done := must(tables.Batch(r.Context(), insert("ada"), insert("bob"),
		tables.Prepare("select count(*) as n from users")))
	_, err := tables.Batch(r.Context(), insert("eve"), insert("ada"))
	answer(w, []any{[]any{wire(done[0]), wire(done[1]), wire(done[2])}, told(err)})
}

func options(w http.ResponseWriter, r *http.Request) {
	const add = "insert into users (name) values ($1) returning id"
	keyed := func(key string) context.Context { return tables.WithIdempotencyKey(r.Context(), key) }
	execs := []any{wire(must(tables.Exec(keyed("one"), add, "ada"))), wire(must(tables.Exec(keyed("one"), add, "ada")))}
	batches := []any{}
	for range 2 {
		done := must(tables.Batch(keyed(`two "2"`), tables.Prepare(add, "bob"), tables.Prepare(add, "eve")))
		batches = append(batches, []any{wire(done[0]), wire(done[1])})
	}
	_, reused := tables.Exec(keyed("one"), add, "max")
	_, long := tables.Exec(keyed(strings.Repeat("k", 256)), add, "max")
	stale := tables.WithStaleOK(r.Context(), true)
	names := must(tables.Query(stale, "select name from users"))
	count := must(tables.Batch(stale, tables.Prepare("select count(*) as n from users")))
	answer(w, []any{execs, batches, []any{told(reused), told(long)}, names, []any{wire(count[0])}})
}

func failures(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	must(tables.Exec(ctx, "insert into users (name) values ('ada')"))
	_, syntax := tables.Query(ctx, "select nme from users")
	_, unique := tables.Exec(ctx, "insert into users (name) values ('ada')")
	_, count := tables.Query(ctx, "select $1", 1, 2)
	_, writes := tables.Query(ctx, "delete from users")
	answer(w, []any{told(syntax), told(unique), told(count), told(writes)})
}

func unfit(w http.ResponseWriter, r *http.Request) {
	var said []any
	for _, param := range []any{math.NaN(), uint64(math.MaxUint64), "\xff", time.Unix(1<<40, 0), func() {}} {
		_, err := tables.Query(r.Context(), "select $2, $1", 1, param)
		said = append(said, told(err))
	}
	_, err := tables.Batch(r.Context(), tables.Prepare("select 1"), tables.Prepare("select $1", math.Inf(1)))
	_, sql := tables.Query(r.Context(), tables.Text("select \xff"))
	answer(w, append(said, told(err), told(sql)))
}

func misfit(w http.ResponseWriter, r *http.Request) {
	_, small := tables.QueryAs[struct{ N int8 }](r.Context(), "select 300 as n")
	_, text := tables.QueryAs[struct{ N int }](r.Context(), "select 'x' as n")
	answer(w, []any{told(small), told(text)})
}

func passwords(w http.ResponseWriter, r *http.Request) {
	hash := must(password.Hash(r.Context(), "pässword"))
	right := must(password.Verify(r.Context(), "pässword", hash))
	wrong := must(password.Verify(r.Context(), "password", hash))
	_, err := password.Verify(r.Context(), "password", "none")
	json.NewEncoder(w).Encode([]any{hash[:31], right, wrong, err.Error()})
}
