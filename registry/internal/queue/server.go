// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The accounts of the embedded server.
const (
	ControllerUser = "controller"
	WorkerUser     = "worker"
)

const (
	readyTimeout = 30 * time.Second
	tlsTimeout   = 10
	// maxPayload is more than a message may have: the stream refuses those, with a reason.
	maxPayload = 256 << 10
)

// ServerOptions are those of the embedded server.
type ServerOptions struct {
	// Address is where to listen, such as :4222.
	Address string
	// TLS is required: passwords go over the wire.
	TLS *tls.Config
	// StoreDir is for what JetStream keeps of itself; streams are in memory.
	StoreDir string
	// ControllerPassword and WorkerPassword are those of the accounts.
	ControllerPassword, WorkerPassword string
}

// Server is a NATS server in this process.
type Server struct{ server *server.Server }

// StartServer starts the embedded server. It listens when this returns.
func StartServer(o ServerOptions) (*Server, error) {
	if o.TLS == nil || o.ControllerPassword == "" || o.WorkerPassword == "" {
		return nil, errors.New("the embedded queue needs TLS and two passwords")
	}
	host, portText, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("read the address of the queue: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read the port of the queue: %w", err)
	}
	options := &server.Options{
		ServerName: "registry", Host: host, Port: int(port), JetStream: true, StoreDir: o.StoreDir, TLSConfig: o.TLS, TLSTimeout: tlsTimeout,
		MaxPayload: maxPayload, NoLog: true, NoSigs: true, DisableJetStreamBanner: true,
		Users: []*server.User{
			{Username: ControllerUser, Password: o.ControllerPassword},
			{Username: WorkerUser, Password: o.WorkerPassword, Permissions: workerPermissions()},
		},
	}
	if port == 0 {
		options.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("make the embedded queue: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(readyTimeout) {
		s.Shutdown()
		return nil, errors.New("start the embedded queue: the server does not listen")
	}
	return &Server{s}, nil
}

// workerPermissions are what a worker may do: take work and acknowledge it, speak of itself, hear what the controller tells.
func workerPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.INFO", "$JS.API.CONSUMER.INFO." + Stream + ".*", "$JS.API.CONSUMER.MSG.NEXT." + Stream + ".*", "$JS.ACK." + Stream + ".>",
			subjectDone, subjectWorker + ".*", subjectDead + ".>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", subjectControl + ".>"}},
	}
}

// URL is how the server is reached from this host.
func (s *Server) URL() string { return s.server.ClientURL() }

// Stop ends the server; what its streams held is gone.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
