// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// ServerFiles name the files of a TLS server.
type ServerFiles struct {
	Certificate, Key string
	// ClientCA holds the authorities of clients; with it each client needs a certificate.
	ClientCA string
}

// Server gives TLS to a listener.
type Server struct {
	files ServerFiles
	now   func() time.Time

	mutex   sync.Mutex
	read    time.Time
	current *tls.Config
}

// rereadAfter bounds how often files are read: once a second at most.
const rereadAfter = time.Second

// NewServer reads the files. An error names the file that cannot be used.
func NewServer(files ServerFiles, now func() time.Time) (*Server, error) {
	s := &Server{files: files, now: now}
	config, err := files.load(now)
	if err != nil {
		return nil, err
	}
	s.current, s.read = config, now()
	return s, nil
}

func (f ServerFiles) load(now func() time.Time) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Certificate, f.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, Time: now}
	if f.ClientCA == "" {
		return config, nil
	}
	bundle, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("authority of clients: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("authority of clients: %s holds no PEM certificate", f.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

// config gives what the files say now. Files that cannot be read, as while they are being replaced, leave what was read before.
func (s *Server) config() *tls.Config {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if now := s.now(); now.Sub(s.read) >= rereadAfter {
		s.read = now
		if config, err := s.files.load(s.now); err == nil {
			s.current = config
		}
	}
	return s.current
}

// Credentials are those of a gRPC server.
func (s *Server) Credentials() credentials.TransportCredentials { return serverCredentials{server: s} }

// HTTP is the configuration of an HTTP server.
func (s *Server) HTTP() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := s.config().Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		return config, nil
	}}
}

// serverCredentials do the handshake with the present files. Only the server's half is used.
type serverCredentials struct{ server *Server }

var errServerOnly = errors.New("these credentials are a server's")

// ClientHandshake is never called.
func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errServerOnly
}

// ServerHandshake closes the connection when the certificate that the client presented ends.
func (c serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(c.server.config()).ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	known, ok := info.(credentials.TLSInfo)
	if !ok || len(known.State.PeerCertificates) == 0 {
		return conn, info, nil
	}
	left := known.State.PeerCertificates[0].NotAfter.Sub(c.server.now())
	bounded := &boundedConn{Conn: conn}
	bounded.timer = time.AfterFunc(left, func() {
		_ = raw.Close() // the reader of the connection gets the error
	})
	return bounded, info, nil
}

// Info names the protocol.
func (c serverCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone gives the same credentials: they hold nothing that changes.
func (c serverCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName is a client's.
func (serverCredentials) OverrideServerName(string) error { return errServerOnly }

// boundedConn is a connection that ends with a certificate.
type boundedConn struct {
	net.Conn

	timer *time.Timer
}

// Close ends the connection before its certificate does.
func (c *boundedConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}

// Subject is who a certificate says its holder is: the first DNS name, else the first URI, else the distinguished name.
// A new certificate of the same holder has the same subject.
func Subject(certificate *x509.Certificate) string {
	if len(certificate.DNSNames) > 0 {
		return certificate.DNSNames[0]
	}
	if len(certificate.URIs) > 0 {
		return certificate.URIs[0].String()
	}
	return certificate.Subject.String()
}
