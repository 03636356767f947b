"""Go's own TLS, which the linker includes only in programs that use it."""

import pytest

from tests.lanes.go.module import HELLO, Module

pytestmark = pytest.mark.slow
HANDSHAKE = b"crypto/tls.(*Conn).clientHandshake"
PROGRAM = """\
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"

	"svc/guest"
)

func certificate() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"here"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, made, made, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	parsed, err := x509.ParseCertificate(signed)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, pool, nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	own, pool, err := certificate()
	if err != nil {
		fmt.Fprint(w, err)
		return
	}
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{own}})
	go func() {
		io.WriteString(server, "over TLS")
		server.Close()
	}()
	client := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: r.URL.Query().Get("name")})
	text, err := io.ReadAll(client)
	fmt.Fprint(w, string(text), " ", err)
}

func main() { guest.Serve(http.HandlerFunc(answer)) }
"""


def test_program_without_tls_excludes_the_handshake(module: Module) -> None:
    module.program(HELLO)
    assert HANDSHAKE not in module.build("deploy").component.read_bytes()


def test_program_can_make_its_own_tls_connections(module: Module) -> None:
    module.program(PROGRAM)
    artifact = module.build("deploy")
    assert HANDSHAKE in artifact.component.read_bytes()
    [good, bad] = module.ask(artifact, "/?name=here", "/?name=there")
    assert good.text == "over TLS <nil>"
    assert bad.text.startswith(
        " tls: failed to verify certificate: x509: certificate is valid for here, not there"
    )
