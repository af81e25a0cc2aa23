package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func caFile(dir string) string   { return filepath.Join(dir, "ca.crt") }
func certFile(dir string) string { return filepath.Join(dir, "server.crt") }
func keyFile(dir string) string  { return filepath.Join(dir, "server.key") }

// writeCertificates makes a certificate authority and a server certificate
// signed by it, writes what the server needs to dir, and returns a client
// configuration that trusts the authority and nothing else.
func writeCertificates(dir string) (*tls.Config, error) {
	ca := template(1, "redistest authority")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	if err := writePEM(caFile(dir), "CERTIFICATE", caDER); err != nil {
		return nil, err
	}
	if err := writeServerCertificate(dir, ca, caKey); err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}, nil
}

func writeServerCertificate(dir string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	cert := template(2, "redistest server")
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // a test may show it as a client, too
	cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	cert.DNSNames = []string{"localhost"}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	certDER, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(certFile(dir), "CERTIFICATE", certDER); err != nil {
		return err
	}
	return writePEM(keyFile(dir), "PRIVATE KEY", keyDER)
}

// template is valid for an hour to either side of now: a test takes less.
func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(serial),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
