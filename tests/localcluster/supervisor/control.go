// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/scanyard/scanyard/tests/localcluster"
)

// handler answers localcluster.Control.
func (v *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		out := make([]localcluster.ComponentStatus, 0, len(localcluster.Components))
		for _, name := range localcluster.Components {
			out = append(out, v.components[name].status())
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller sees a broken answer itself
	})
	mux.HandleFunc("POST /components/{name}/{action}", func(w http.ResponseWriter, r *http.Request) {
		if err := v.act(r.Context(), r.PathValue("name"), r.PathValue("action")); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		}
	})
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) {
		select {
		case v.down <- struct{}{}:
		default: // somebody asked before
		}
	})
	return mux
}

func (v *Supervisor) act(ctx context.Context, name, action string) error {
	c, ok := v.components[name]
	if !ok {
		return fmt.Errorf("no component %q: there are %s", name, strings.Join(localcluster.Components, ", "))
	}
	switch action {
	case localcluster.ActionStart:
		return v.start(ctx, name)
	case localcluster.ActionStop:
		return c.end(syscall.SIGTERM)
	case localcluster.ActionKill:
		return c.end(syscall.SIGKILL)
	case localcluster.ActionRestart:
		if err := c.end(syscall.SIGTERM); err != nil {
			return err
		}
		return v.start(ctx, name)
	}
	return fmt.Errorf("no action %q", action)
}
