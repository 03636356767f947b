// Package jobs adds jobs: requests that svc sends later, at least once, with retries. They are rows of the project's
// tables:
//
//	_, err := jobs.Add(ctx, "/resize", map[string]int{"id": id}, jobs.Options{Delay: 10 * time.Minute})
//	_, err := tables.Batch(ctx, tables.Prepare("insert into orders (id) values ($1)", id), jobs.SQL("/mail", order, jobs.Options{}))
//
// A job is a POST to its path, with the id of the job in the header x-svc-job.
package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"svc/guest/internal/door"
	"svc/guest/tables"
)

// Options are those of a job. The zero value has the defaults.
type Options struct {
	// Resource gets the request; the calling one if it is empty.
	Resource string
	// Delay is the time from now until the job is due.
	Delay time.Duration
	// Key, if it is not empty: the job is not added while another one with this key waits.
	Key string
	// MaxTries is how often svc tries, 8 if it is 0. Then the job is dead.
	MaxTries int
}

// Added is the outcome of Add: if another job with the key waits, Added is false and ID is that of the other one.
type Added struct {
	ID    string `json:"id"`
	Added bool   `json:"added"`
}

// Error is the error of a refused job. Its code is "bad-request" or "jobs-full", or one of the tables.
type Error = door.Error

// Add adds a job. Its body is []byte, or another value as JSON; nil sends none.
func Add(ctx context.Context, path string, body any, options Options) (Added, error) {
	content, err := encode(body)
	if err != nil {
		return Added{}, err
	}
	text, _ := content.(string)
	bytes, _ := content.([]byte)
	job := struct {
		Path     string  `json:"path"`
		Text     string  `json:"body,omitempty"`
		Bytes    []byte  `json:"base64,omitempty"`
		Delay    float64 `json:"delay_s"`
		Resource string  `json:"resource,omitempty"`
		Key      string  `json:"key,omitempty"`
		MaxTries int     `json:"max_tries,omitempty"`
	}{path, text, bytes, options.Delay.Seconds(), options.Resource, options.Key, options.MaxTries}
	var added Added
	err = door.Post(ctx, "jobs", "SVC_JOBS_ENDPOINT", "/v1/add", job, &added)
	return added, err
}

const insert = "INSERT INTO _svc_jobs_add (resource, path, body, delay_s, key, max_tries) VALUES ($1, $2, $3, $4, $5, $6)"

// SQL returns a statement for tables.Batch that adds a job in its transaction.
func SQL(path string, body any, options Options) tables.Statement {
	resource := options.Resource
	if resource == "" {
		resource = os.Getenv("SVC_RESOURCE")
	}
	content, err := encode(body)
	if err != nil {
		content = failure{err}
	}
	var key, tries any
	if options.Key != "" {
		key = options.Key
	}
	if options.MaxTries != 0 {
		tries = options.MaxTries
	}
	return tables.Prepare(insert, resource, path, content, options.Delay.Seconds(), key, tries)
}

// Remove removes a job by its id, and returns whether it was there.
func Remove(ctx context.Context, id string) (bool, error) {
	return remove(ctx, map[string]any{"id": id})
}

// RemoveKey removes the waiting job with a key, and returns whether there was one.
func RemoveKey(ctx context.Context, key string) (bool, error) {
	return remove(ctx, map[string]any{"key": key})
}

func remove(ctx context.Context, members map[string]any) (bool, error) {
	var answer struct {
		Removed bool `json:"removed"`
	}
	err := door.Post(ctx, "jobs", "SVC_JOBS_ENDPOINT", "/v1/remove", members, &answer)
	return answer.Removed, err
}

// failure is a parameter without a text, because the body of its job has no JSON.
type failure struct{ error }

func (f failure) MarshalText() ([]byte, error) { return nil, f.error }

func encode(body any) (any, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return body, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("jobs: the body has no JSON: %w", err)
	}
	return string(text), nil
}
