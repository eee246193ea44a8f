// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/internal/sinks/grpc"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Config says where records go.
type Config struct {
	// URL is unix:///path, grpc://host:port of this machine, or grpcs://host:port?ca=FILE&cert=FILE&key=FILE&token=FILE; "" is not an exporter.
	URL string
	// Producer names the program; it is part of the name of the stream.
	Producer string
	// ClusterID and Tenant are for far ends by gRPC that are not an exporter. An exporter knows them by itself.
	ClusterID, Tenant string
	// MaxRecords and MaxBytes bound what is not acknowledged; 0: 1,024 records and 4 MiB.
	MaxRecords, MaxBytes int
}

// Client hands records to an exporter. Its methods may be called by many goroutines, and on a nil Client, which does nothing.
type Client struct {
	records *decision.Client
	// remote is the connection by gRPC; nil: there is none.
	remote *remote
}

// New starts a client. It does not wait for a connection: an exporter that starts later finds what was logged so far.
func New(config Config) (*Client, error) {
	bounds := decision.Config{Producer: config.Producer, MaxRecords: config.MaxRecords, MaxBytes: config.MaxBytes}
	if config.URL == "" {
		return nil, nil // no exporter: all methods of a nil Client do nothing
	}
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, refused("the URL cannot be read")
	}
	switch u.Scheme {
	case "unix":
		records, err := decision.Dial(config.URL, bounds)
		if err != nil {
			return nil, err
		}
		return &Client{records: records}, nil
	case "grpc", "grpcs":
		r, err := newRemote(u, config)
		if err != nil {
			return nil, err
		}
		return &Client{records: decision.New(r, bounds), remote: r}, nil
	}
	return nil, refused(fmt.Sprintf("the scheme %q is not known", u.Scheme))
}

func refused(why string) error {
	return fmt.Errorf("%s: use unix:///path, grpc://host:port of this machine, or grpcs://host:port?ca=FILE&cert=FILE&key=FILE&token=FILE", why)
}

func newRemote(u *url.URL, config Config) (*remote, error) {
	plain := u.Scheme == "grpc"
	switch {
	case u.User != nil:
		return nil, refused("the URL must have no user name or password")
	case u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.Fragment != "":
		return nil, refused("the URL must be a host and a port")
	case plain && !isLoopback(u.Hostname()):
		return nil, refused("grpc:// would send decisions in plain text to another machine")
	}
	files := sinkurl.Files{}
	names := map[string]string{"ca": "ca", "cert": "cert", "key": "key", "token": "tokenFile"}
	for key, values := range u.Query() {
		if names[key] == "" || len(values) > 1 || values[0] == "" {
			return nil, refused(fmt.Sprintf("the key %s is not known or has no file", key))
		}
		files[names[key]] = values[0]
	}
	if (files["cert"] == "") != (files["key"] == "") {
		return nil, refused("cert and key belong together")
	}
	opened, err := grpc.Open(sink.Config{
		Name: "exporter", URL: &url.URL{Scheme: u.Scheme, Host: u.Host}, Insecure: plain, Secrets: files, Timeout: timeout, ClusterID: config.ClusterID,
	})
	if err != nil {
		return nil, err
	}
	prover, ok := opened.(prover)
	if !ok {
		return nil, refused("the sink cannot tell what it has")
	}
	return &remote{far: prover, clusterID: config.ClusterID, tenant: config.Tenant}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Log hands over a record and never blocks. It is false where the record was dropped: the window was full, or the record is invalid.
func (c *Client) Log(r *decision.Record) bool {
	if c == nil {
		return true
	}
	return c.log(r)
}

func (c *Client) log(r *decision.Record) bool {
	stamped := c.stamp(r)
	return c.records.Log(&stamped)
}

// Send hands over records and waits until each is acknowledged, or ctx ends. An error may leave some of them acknowledged.
func (c *Client) Send(ctx context.Context, records ...*decision.Record) error {
	if c == nil {
		return nil
	}
	all := make([]*decision.Record, 0, len(records))
	for _, r := range records {
		stamped := c.stamp(r)
		all = append(all, &stamped)
	}
	return c.records.Send(ctx, all...)
}

// stamp gives a record its time. By gRPC a record that is sent again must be the same one.
func (c *Client) stamp(r *decision.Record) decision.Record {
	stamped := *r
	if c.remote != nil && stamped.TimeStamp == "" {
		stamped.TimeStamp = time.Now().UTC().Format(time.RFC3339Nano) //nolint:forbidigo // the time at which the producer has decided
	}
	return stamped
}

// Close waits until all is acknowledged or ctx ends, then ends the connection. What is left then is counted as dropped.
func (c *Client) Close(ctx context.Context) error {
	if c == nil {
		return nil
	}
	err := c.records.Close(ctx)
	if c.remote == nil {
		return err
	}
	if closing := c.remote.far.Close(); err == nil {
		err = closing
	}
	return err
}

// Stats tells what became of records so far.
func (c *Client) Stats() decision.Stats {
	if c == nil {
		return decision.Stats{}
	}
	return c.records.Stats()
}

// Err is why the last connection by gRPC failed; nil where none has failed, and by a socket.
func (c *Client) Err() error {
	if c == nil || c.remote == nil {
		return nil
	}
	return c.remote.lastError()
}
