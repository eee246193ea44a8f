// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestSilentNameServers(t *testing.T) {
	for name, want := range map[string]bool{"listens and never answers": true, "refuses": false} {
		t.Run(name, func(t *testing.T) {
			server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if !want {
				if err := server.Close(); err != nil {
					t.Fatal(err)
				}
			}
			r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, server.LocalAddr().String())
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if got := silent(ctx, r); got != want {
				t.Errorf("a name server that %s: silent is %v, want %v", name, got, want)
			}
		})
	}
}
