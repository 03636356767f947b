// Each request runs this program in a new WebAssembly instance. Data that must last belongs in a table.
package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"svc/guest"
	"svc/guest/tables"
)

func main() {
	http.HandleFunc("GET /go/entries", list)
	http.HandleFunc("POST /go/entries", add)
	http.HandleFunc("POST /go/entries/{id}/heart", heart)
	guest.Serve(nil)
}

// Entry is a row of the table entries.
type Entry struct {
	ID        int64     `json:"id"`
	Lane      string    `json:"lane"`
	Author    string    `json:"author"`
	Message   string    `json:"message"`
	Hearts    int64     `json:"hearts"`
	WrittenAt time.Time `json:"written_at"`
}

func list(w http.ResponseWriter, r *http.Request) {
	entries, err := tables.QueryAs[Entry](r.Context(), "select * from entries order by id desc limit 100")
	if err != nil {
		panic(err)
	}
	answer(w, http.StatusOK, entries)
}

func add(w http.ResponseWriter, r *http.Request) {
	var sent Entry
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		problem(w, http.StatusBadRequest, "An entry is JSON with author and message")
		return
	}
	written, err := tables.ExecAs[Entry](r.Context(),
		"insert into entries (lane, author, message) values ('go', $1, $2) returning *", sent.Author, sent.Message)
	var refused *tables.Error
	if errors.As(err, &refused) && refused.Code == "constraint" {
		// The visitor can correct an entry that the table rejects.
		guest.Log.Warn("entry refused", "lane", "go", "reason", refused.Detail)
		problem(w, http.StatusBadRequest, "A name has 1 to 40 characters, and a message 1 to 280")
		return
	}
	if err != nil {
		panic(err)
	}
	guest.Log.Info("entry written", "lane", "go", "id", written[0].ID, "author", written[0].Author)
	answer(w, http.StatusCreated, written[0])
}

// One transaction adds the heart and returns the new number.
func heart(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	done, err := tables.Batch(r.Context(),
		tables.Prepare("update entries set hearts = hearts + 1 where id = $1", id),
		tables.Prepare("select * from entries where id = $1", id),
	)
	if err != nil {
		panic(err)
	}
	if len(done[1].Rows) == 0 {
		problem(w, http.StatusNotFound, "There is no such entry")
		return
	}
	answer(w, http.StatusOK, done[1].Rows[0])
}

func problem(w http.ResponseWriter, status int, title string) {
	answer(w, status, map[string]string{"title": title})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}
