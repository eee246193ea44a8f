// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"strings"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// checkSubject refuses what no message can be published to.
func checkSubject(template string) error {
	if template == "" {
		return errors.New("the URL must name a subject, such as tls://nats.example.com:4222/scanyard.{cluster}.{tenant}.{kind}")
	}
	for token := range strings.SplitSeq(subjectOf(template, &forwardingv1.StreamId{}), ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n{}") {
			return fmt.Errorf("the subject %q is none that can be published to: use names with dots between them, and {cluster}, {tenant}, {kind}", template)
		}
	}
	return nil
}

// subjectOf fills in the template.
func subjectOf(template string, stream *forwardingv1.StreamId) string {
	return strings.NewReplacer(
		"{cluster}", token(stream.GetClusterId()), "{tenant}", token(stream.GetTenant()), "{kind}", token(forwardingv1.KindName(stream.GetKind())),
	).Replace(template)
}

// token makes a name one token of a subject: what has a meaning there is percent-encoded. Nothing is a percent sign alone.
func token(name string) string {
	if name == "" {
		return "%"
	}
	var to strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			to.WriteByte(c)
		default:
			fmt.Fprintf(&to, "%%%02X", c)
		}
	}
	return to.String()
}
