// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

// noResolver is a resolv.conf(5) of a name server that nobody runs: the
// machine itself refuses each question at once.
const noResolver = "# The machine's name servers did not answer.\nnameserver 127.53.53.53\noptions attempts:1\n"

// resolverPatience is how long the machine's name servers have for an answer.
const resolverPatience = 2 * time.Second

// silent says whether the resolver's name servers leave a question without
// any answer until ctx ends. Name servers answer for names below "invalid"
// themselves (RFC 6761, section 6.4), so the answer is not that of a slow
// server further away.
func silent(ctx context.Context, r *net.Resolver) bool {
	_, err := r.LookupHost(ctx, "localcluster.invalid.")
	var failed *net.DNSError
	return errors.As(err, &failed) && failed.IsTimeout
}

// resolverMounts returns what containers get over the machine's resolv.conf.
// Where a firewall drops what is sent to the machine's name servers, a
// scanner would wait ten seconds and more for each name, so containers are told
// at once that there are none.
func (a *Agent) resolverMounts(ctx context.Context) ([]sandbox.Mount, error) {
	ctx, cancel := context.WithTimeout(ctx, resolverPatience)
	defer cancel()
	if !silent(ctx, &net.Resolver{PreferGo: true}) {
		return nil, nil
	}
	a.o.Log.Warn("containers resolve only the names of /etc/hosts: the name servers of /etc/resolv.conf do not answer", "waited", resolverPatience)
	f := filepath.Join(a.o.Dir, "resolv.conf")
	if err := os.WriteFile(f, []byte(noResolver), 0o644); err != nil {
		return nil, fmt.Errorf("write the containers' resolv.conf: %w", err)
	}
	return []sandbox.Mount{{Source: f, Target: "/etc/resolv.conf", ReadOnly: true}}, nil
}
