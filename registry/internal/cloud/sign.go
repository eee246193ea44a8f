// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	signAlgorithm = "AWS4-HMAC-SHA256"
	signTime      = "20060102T150405Z"
	signDay       = "20060102"
)

// sign signs a request by AWS Signature Version 4: all of its headers, and its body.
func sign(r *http.Request, body []byte, with keys, region, service string, now time.Time) {
	now = now.UTC()
	r.Header.Set("X-Amz-Date", now.Format(signTime))
	if with.session != "" {
		r.Header.Set("X-Amz-Security-Token", with.session)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	names := slices.Sorted(maps.Keys(headers))
	var listed strings.Builder
	for _, name := range names {
		fmt.Fprintf(&listed, "%s:%s\n", name, headers[name])
	}
	signed := strings.Join(names, ";")
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	canonical := strings.Join([]string{r.Method, path, r.URL.Query().Encode(), listed.String(), signed, sum(body)}, "\n")
	scope := strings.Join([]string{now.Format(signDay), region, service, "aws4_request"}, "/")
	text := strings.Join([]string{signAlgorithm, now.Format(signTime), scope, sum([]byte(canonical))}, "\n")
	key := []byte("AWS4" + with.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := hex.EncodeToString(mac(key, text))
	r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", signAlgorithm, with.access, scope, signed, signature))
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return h.Sum(nil)
}
