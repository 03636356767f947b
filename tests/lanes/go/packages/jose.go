package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// joseTokens signs and verifies tokens; the body is a private RSA key in PEM.
func joseTokens(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	block, _ := pem.Decode(sent)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rsaKey := parsed.(*rsa.PrivateKey)
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPublic, edKey, _ := ed25519.GenerateKey(rand.Reader)
	secret := make([]byte, 32)
	for _, each := range []struct {
		algorithm     jose.SignatureAlgorithm
		sign, measure any
	}{
		{jose.RS256, rsaKey, &rsaKey.PublicKey}, {jose.PS256, rsaKey, &rsaKey.PublicKey},
		{jose.ES256, ecKey, &ecKey.PublicKey}, {jose.EdDSA, edKey, edPublic}, {jose.HS256, secret, secret},
	} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: each.algorithm, Key: each.sign}, nil)
		if err != nil {
			fmt.Fprintln(w, each.algorithm, err)
			continue
		}
		claims := jwt.Claims{Subject: "ada", Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute))}
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			fmt.Fprintln(w, each.algorithm, err)
			continue
		}
		read, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{each.algorithm})
		var got jwt.Claims
		if err == nil {
			err = read.Claims(each.measure, &got)
		}
		fmt.Fprintln(w, each.algorithm, got.Subject, err, got.Validate(jwt.Expected{Time: time.Now()}))
	}
}
