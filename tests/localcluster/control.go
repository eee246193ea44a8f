// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const controlSocket = "control.sock"

// ComponentStatus is what the supervisor knows about one component.
type ComponentStatus struct {
	Name    string    `json:"name"`
	Running bool      `json:"running"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Starts counts how often the component was started.
	Starts int `json:"starts"`
	// Exit says how it ended, if it does not run.
	Exit string `json:"exit,omitempty"`
}

// Actions that the supervisor takes on a component.
const (
	ActionStart   = "start"
	ActionStop    = "stop"
	ActionKill    = "kill"
	ActionRestart = "restart"
)

// socketPath gives a path to the control socket that fits into a socket
// address: those hold 107 bytes, and test directories are often longer. The
// path through the open directory is always short. The caller closes the file
// when the path is no longer needed.
func socketPath(l Layout) (string, *os.File, error) {
	d, err := os.Open(string(l))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", fmt.Sprint(d.Fd()), controlSocket), d, nil
}

// ListenControl opens the supervisor's end of the control socket.
func ListenControl(l Layout) (net.Listener, error) {
	path, dir, err := socketPath(l)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	// The name is only valid in this process while the directory is open, so
	// the listener must not try to remove it.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	return ln, nil
}

// Control talks to the supervisor of a running cluster.
type Control struct{ client *http.Client }

// NewControl makes a client for the cluster in a data directory; it does not connect yet.
func NewControl(l Layout) *Control {
	return &Control{client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			path, dir, err := socketPath(l)
			if err != nil {
				return nil, err
			}
			defer dir.Close()
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}}
}

// Status lists the components.
func (c *Control) Status(ctx context.Context) ([]ComponentStatus, error) {
	var out []ComponentStatus
	b, err := c.call(ctx, http.MethodGet, "/status")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	return out, nil
}

// Do takes an action on a component and returns when it has happened; a start
// has happened when the component is ready.
func (c *Control) Do(ctx context.Context, action, component string) error {
	_, err := c.call(ctx, http.MethodPost, "/components/"+component+"/"+action)
	return err
}

// Down asks the supervisor to stop all components and end.
func (c *Control) Down(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPost, "/down")
	return err
}

func (c *Control) call(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster's supervisor: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask the cluster's supervisor: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(bytes.TrimSpace(b))))
	}
	return b, nil
}
