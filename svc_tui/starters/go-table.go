// Each request runs this program in a new WebAssembly instance. Rows of the table "__TABLE__" persist.
package main

import (
	"encoding/json"
	"net/http"
	"time"

	"svc/guest"
	"svc/guest/tables"
)

func main() {
	http.HandleFunc("GET __PREFIX__/__TABLE__", list)
	http.HandleFunc("POST __PREFIX__/__TABLE__", add)
	guest.Serve(nil)
}

// Row is a row of the table "__TABLE__".
type Row struct {
	ID        int64     `json:"id"`
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
}

func list(w http.ResponseWriter, r *http.Request) {
	rows, err := tables.QueryAs[Row](r.Context(), `select * from "__TABLE__" order by id desc limit 100`)
	if err != nil {
		panic(err)
	}
	answer(w, http.StatusOK, rows)
}

func add(w http.ResponseWriter, r *http.Request) {
	var sent Row
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"title": "The body is JSON with a text"})
		return
	}
	// $1 is a parameter of the statement, never a part of the SQL.
	rows, err := tables.ExecAs[Row](r.Context(), `insert into "__TABLE__" (text) values ($1) returning *`, sent.Text)
	if err != nil {
		panic(err)
	}
	answer(w, http.StatusCreated, rows[0])
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}
