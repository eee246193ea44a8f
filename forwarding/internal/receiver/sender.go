// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
)

// sender is who calls, as it has proved.
type sender struct {
	// authority is part of the identity of each of its records. It stays the same when a token or a certificate is replaced by another one of the same rights.
	authority string
	grant     grant
}

// identify looks at certificate and token of a call.
func (s *Service) identify(ctx context.Context) (sender, error) {
	var parts []string
	if caller, ok := peer.FromContext(ctx); ok {
		if info, ok := caller.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			parts = append(parts, "certificate:"+trust.Subject(info.State.PeerCertificates[0]))
		}
	}
	if s.options.Tokens == nil {
		return sender{authority: strings.Join(parts, " ")}, nil
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	values := headers.Get("authorization")
	if len(values) == 0 {
		return sender{}, status.Error(codes.Unauthenticated, "the call has no token: send authorization: Bearer TOKEN")
	}
	text, bearer := strings.CutPrefix(values[0], "Bearer ")
	allowed, known := s.options.Tokens.find(text)
	if !bearer || !known {
		return sender{}, status.Error(codes.Unauthenticated, "the token is not known to this receiver")
	}
	parts = append(parts, fmt.Sprintf("token:cluster=%s,tenant=%s", allowed.cluster, allowed.tenant))
	return sender{authority: strings.Join(parts, " "), grant: allowed}, nil
}

// refuses tells why the sender may not send to the stream; "" if it may.
func (g grant) refuses(stream *forwardingv1.StreamId) string {
	if g.cluster != "" && g.cluster != stream.GetClusterId() {
		return fmt.Sprintf("the token is bound to cluster %s, the stream is of cluster %s", g.cluster, stream.GetClusterId())
	}
	if g.tenant != "" && g.tenant != stream.GetTenant() {
		return fmt.Sprintf("the token is bound to tenant %s, the stream is of tenant %s", g.tenant, stream.GetTenant())
	}
	return ""
}
