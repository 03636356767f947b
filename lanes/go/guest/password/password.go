// Package password hashes passwords with Argon2id and the parameters that OWASP recommends. The host computes:
//
//	hash, err := password.Hash(ctx, secret)
//	valid, err := password.Verify(ctx, secret, hash)
package password

import (
	"context"

	"svc/guest/internal/door"
)

// Hash returns a hash of a password with a random salt, in the PHC string format: text without spaces, to store. A
// password has at most 4 KiB.
func Hash(ctx context.Context, password string) (string, error) {
	var answer struct{ Hash string }
	err := post(ctx, "hash", map[string]string{"password": password}, &answer)
	return answer.Hash, err
}

// Verify returns whether a password belongs to a hash of Hash or of another Argon2 library. It fails if the hash is
// not a PHC string of Argon2.
func Verify(ctx context.Context, password, hash string) (bool, error) {
	var answer struct{ Valid bool }
	err := post(ctx, "verify", map[string]string{"password": password, "hash": hash}, &answer)
	return answer.Valid, err
}

func post(ctx context.Context, operation string, members map[string]string, answer any) error {
	return door.Post(ctx, "password", "SVC_CRYPTO_ENDPOINT", "/v1/password/"+operation, members, answer)
}
