// Package password hashes passwords with Argon2id and the parameters that OWASP recommends. The host computes:
//
//	hash, err := password.Hash(ctx, secret)
//	valid, err := password.Verify(ctx, secret, hash)
package password

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"svc/guest/internal/door"
	"svc/guest/lite"
)

var headers = []lite.Header{{Name: "content-type", Value: "application/json"}}

type answer struct {
	Hash   string `json:"hash"`
	Valid  bool   `json:"valid"`
	Detail string `json:"detail"`
}

// Hash returns a hash of a password with a random salt, in the PHC string format: text without spaces, to store. A
// password has at most 4 KiB.
func Hash(ctx context.Context, password string) (string, error) {
	result, err := ask(ctx, "hash", map[string]string{"password": password})
	return result.Hash, err
}

// Verify returns whether a password belongs to a hash of Hash or of another Argon2 library. It fails if the hash is
// not a PHC string of Argon2.
func Verify(ctx context.Context, password, hash string) (bool, error) {
	result, err := ask(ctx, "verify", map[string]string{"password": password, "hash": hash})
	return result.Valid, err
}

func ask(ctx context.Context, operation string, members map[string]string) (answer, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return answer{}, fmt.Errorf("password: %w", err)
	}
	response, err := door.Send(ctx, "password", "SVC_CRYPTO_ENDPOINT", lite.Outgoing{
		Method:  "POST",
		URL:     "/v1/password/" + operation,
		Headers: headers,
		Body:    bytes.NewReader(body),
	})
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	var result answer
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		return answer{}, fmt.Errorf("password: the response of the host is incomplete: %w", err)
	}
	if response.Status != 200 {
		return answer{}, fmt.Errorf("password: %s", result.Detail)
	}
	return result, nil
}
