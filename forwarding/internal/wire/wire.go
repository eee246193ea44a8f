// SPDX-License-Identifier: Apache-2.0

// Package wire is what both ends of the protocol need of gRPC: compression by zstd and gzip, the times of keepalive, sizes, the
// details of errors, and records to bytes and back, quickly.
package wire

import (
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // registers its gzip before this package does
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Names of compressions, which are also the names of their features.
const (
	Zstd = forwardingv1.FeatureZstd
	Gzip = forwardingv1.FeatureGzip
)

// Keepalive: a sender asks after PingAfter of silence, a receiver allows it no more often than every PingAllowed.
const (
	PingAfter   = 30 * time.Second
	PingTimeout = 20 * time.Second
	PingAllowed = 20 * time.Second
)

// memory bounds what a message may make the decoder take; the size of the message itself is bounded by gRPC.
const memory = 64 << 20

func init() {
	encoding.RegisterCompressor(&compressor{})
	encoding.RegisterCompressor(&gzipCompressor{})
}

// compressor is zstd at its fastest level. Encoders and decoders are used again.
type compressor struct{ encoders, decoders sync.Pool }

// Name is the name on the wire.
func (*compressor) Name() string { return Zstd }

// Compress gives a writer that compresses.
func (c *compressor) Compress(to io.Writer) (io.WriteCloser, error) {
	if encoder, ok := c.encoders.Get().(*writer); ok {
		encoder.Reset(to)
		return encoder, nil
	}
	encoder, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	return &writer{Encoder: encoder, pool: &c.encoders}, nil
}

// Decompress gives a reader that decompresses.
func (c *compressor) Decompress(from io.Reader) (io.Reader, error) {
	if decoder, ok := c.decoders.Get().(*reader); ok {
		return decoder, decoder.Reset(from)
	}
	decoder, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(memory))
	if err != nil {
		return nil, err
	}
	return &reader{Decoder: decoder, pool: &c.decoders}, nil
}

type writer struct {
	*zstd.Encoder

	pool *sync.Pool
}

// Close ends the message and keeps the encoder.
func (w *writer) Close() error {
	err := w.Encoder.Close()
	w.pool.Put(w)
	return err
}

type reader struct {
	*zstd.Decoder

	pool *sync.Pool
}

// Read keeps the decoder at the end of the message.
func (r *reader) Read(to []byte) (int, error) {
	n, err := r.Decoder.Read(to)
	if err == io.EOF { //nolint:errorlint // io.EOF is never wrapped by a Reader
		r.pool.Put(r)
	}
	return n, err
}

// gzipCompressor is gzip at its fastest level, which costs a fraction of the level that gRPC takes. Writers and readers are used again.
type gzipCompressor struct{ writers, readers sync.Pool }

// Name is the name on the wire.
func (*gzipCompressor) Name() string { return Gzip }

// Compress gives a writer that compresses.
func (c *gzipCompressor) Compress(to io.Writer) (io.WriteCloser, error) {
	if known, ok := c.writers.Get().(*gzipWriter); ok {
		known.Reset(to)
		return known, nil
	}
	made, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	return &gzipWriter{Writer: made, pool: &c.writers}, nil
}

// Decompress gives a reader that decompresses.
func (c *gzipCompressor) Decompress(from io.Reader) (io.Reader, error) {
	if known, ok := c.readers.Get().(*gzipReader); ok {
		return known, known.Reset(from)
	}
	made, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	return &gzipReader{Reader: made, pool: &c.readers}, nil
}

type gzipWriter struct {
	*gzip.Writer

	pool *sync.Pool
}

// Close ends the message and keeps the writer.
func (w *gzipWriter) Close() error {
	err := w.Writer.Close()
	w.pool.Put(w)
	return err
}

type gzipReader struct {
	*gzip.Reader

	pool *sync.Pool
}

// Read keeps the reader at the end of the message.
func (r *gzipReader) Read(to []byte) (int, error) {
	n, err := r.Reader.Read(to)
	if err == io.EOF { //nolint:errorlint // io.EOF is never wrapped by a Reader
		r.pool.Put(r)
	}
	return n, err
}

// Size is the encoded size of a message, of which no part may have changed since its size was asked for first: that of a part is not counted again.
func Size(m proto.Message) int { return proto.MarshalOptions{UseCachedSize: true}.Size(m) }

// Status makes an error of gRPC with a detail.
func Status(code codes.Code, message string, detail protoadapt.MessageV1) error {
	plain := status.New(code, message)
	detailed, err := plain.WithDetails(detail)
	if err != nil {
		return plain.Err()
	}
	return detailed.Err()
}

// VersionNotSupported is the answer to a version that is not spoken; supported lists those that are, with commas between them.
func VersionNotSupported(asked, supported string) error {
	return Status(codes.Unimplemented, "wire version "+asked+" is not supported: "+supported+" is", &errdetails.ErrorInfo{
		Reason: forwardingv1.ErrorVersionNotSupported, Domain: forwardingv1.ErrorDomain, Metadata: map[string]string{"supported": supported},
	})
}

// TryLater is the answer of a far end that has no room.
func TryLater(message string, after time.Duration) error {
	return Status(codes.ResourceExhausted, message, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
}
