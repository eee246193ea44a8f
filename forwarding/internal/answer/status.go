// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// maxWords bounds what is told of the far end's words.
const maxWords = 256

// classOf says what an answer means; empty: the far end has the batch.
func classOf(status int, single, retryAfter bool) (sink.Class, sink.Reason) {
	switch {
	case status >= 200 && status < 300, status == http.StatusConflict && single:
		return "", ""
	case status >= 300 && status < 400:
		return sink.Incompatible, sink.NotCompatible
	}
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return sink.Auth, sink.TokenRejected
	case http.StatusForbidden:
		return sink.Auth, sink.PermissionDenied
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return sink.Overload, sink.Overloaded
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusConflict:
		return sink.Refused, sink.RecordsRejected
	case http.StatusRequestEntityTooLarge:
		return sink.Refused, sink.TooLarge
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return sink.Transport, sink.Disconnected
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return sink.Incompatible, sink.NotCompatible
	case http.StatusServiceUnavailable:
		if retryAfter {
			return sink.Overload, sink.Overloaded
		}
	}
	if status >= 400 && status < 500 {
		return sink.Incompatible, sink.NotCompatible
	}
	return sink.Transport, sink.Disconnected
}

// retryAfter reads the header in seconds or as a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return max(0, time.Duration(min(seconds, 1<<20))*time.Second)
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// Words gives the printable beginning of what a far end says: at most 256 characters.
func Words(said string) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(said, ""))
	runes := []rune(strings.TrimSpace(text))
	return string(runes[:min(len(runes), maxWords)])
}

// Status says what an answer by HTTP means; nil: the far end has the batch. single is true for a batch of one record.
func Status(status int, header http.Header, body []byte, single bool, now time.Time) *sink.Error {
	after := header.Get("Retry-After")
	class, reason := classOf(status, single, after != "")
	if class == "" {
		return nil
	}
	text := fmt.Sprintf("the far end answered %d", status)
	if said := Words(string(body)); said != "" {
		text += ": " + said
	}
	return &sink.Error{Class: class, Reason: reason, Message: text, RetryAfter: retryAfter(after, now)}
}
