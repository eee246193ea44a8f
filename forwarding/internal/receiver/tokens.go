// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/scanyard/scanyard/forwarding/internal/tokens"
)

// Tokens are the bearer tokens of a file: one TOKEN[,cluster=ID][,tenant=T] in a line. The file is read again every second.
type Tokens struct{ *tokens.File[grant] }

// grant is what a sender may send. Empty fields bind nothing.
type grant struct{ cluster, tenant string }

// NewTokens reads the file.
func NewTokens(path string, log *slog.Logger) (*Tokens, error) {
	file, err := tokens.Open(path, parseGrant, log)
	if err != nil {
		return nil, err
	}
	return &Tokens{file}, nil
}

func parseGrant(fields []string) (g grant, err error) {
	for i, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "cluster":
			g.cluster = value
		case "tenant":
			g.tenant = value
		default:
			// It is not told: it may be a token.
			return g, fmt.Errorf("what follows comma %d is not known: a line is TOKEN[,cluster=ID][,tenant=T]", i+1)
		}
	}
	return g, nil
}

// Allows tells whether the value of an Authorization header is one of the tokens.
func (t *Tokens) Allows(authorization string) bool {
	_, ok := t.FindBearer(authorization)
	return ok
}
