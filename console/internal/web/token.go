// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// endOf is when a token says that it ends; zero where it does not say. Nothing but the length of a session is decided by it: whether the
// token counts, the API server says with each request.
func endOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Ends int64 `json:"exp"`
	}
	if json.Unmarshal(body, &claims) != nil || claims.Ends == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Ends, 0)
}
