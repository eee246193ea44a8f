// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/tokens"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
)

// Caller is who calls, as it has proved.
type Caller struct {
	// Authority is part of the identity of each of its records. It stays the same when a token or a certificate is replaced by another one of the same rights.
	Authority string
	// Refuses tells why the caller may not send to the stream; "" if it may.
	Refuses func(*forwardingv1.StreamId) string
	// Complete names what the caller left open of a stream; nil: it must name all.
	Complete func(*forwardingv1.StreamId)
	// Validate tells what is wrong with the body of a record; nil: whatever a record holds is taken.
	Validate func(*forwardingv1.Record) error
}

// Certificate is the certificate that a caller has shown; nil if it has shown none.
func Certificate(ctx context.Context) *x509.Certificate {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0]
}

// Bearer is what stands for the token of a call, or the error that refuses the call.
func Bearer[T any](ctx context.Context, known *tokens.File[T]) (T, error) {
	var none T
	headers, _ := metadata.FromIncomingContext(ctx)
	values := headers.Get("authorization")
	if len(values) == 0 {
		return none, status.Error(codes.Unauthenticated, "the call has no token: send authorization: Bearer TOKEN")
	}
	means, ok := known.FindBearer(values[0])
	if !ok {
		return none, status.Error(codes.Unauthenticated, "the token is not known to this receiver")
	}
	return means, nil
}

// identify looks at certificate and token of a call.
func (s *Service) identify(ctx context.Context) (Caller, error) {
	if s.options.Identify != nil {
		return s.options.Identify(ctx)
	}
	var parts []string
	if certificate := Certificate(ctx); certificate != nil {
		parts = append(parts, "certificate:"+trust.Subject(certificate))
	}
	var allowed grant
	if s.options.Tokens != nil {
		var err error
		if allowed, err = Bearer(ctx, s.options.Tokens.File); err != nil {
			return Caller{}, err
		}
		parts = append(parts, fmt.Sprintf("token:cluster=%s,tenant=%s", allowed.cluster, allowed.tenant))
	}
	return Caller{Authority: strings.Join(parts, " "), Refuses: allowed.refuses}, nil
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
