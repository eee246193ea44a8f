// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/scanyard/scanyard/forwarding/internal/answer"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	checksumHeader    = "X-Amz-Checksum-Sha256"
	algorithmHeader   = "X-Amz-Checksum-Algorithm"
	maxClosing        = 1 << 20
	contentTypeLines  = "application/zstd"
	contentTypeObject = "application/json"
)

// keys gives the access keys as they are now.
type keys struct{ trust *trust.Client }

// RetrieveWithCredContext reads the keys. Without keys, requests are not signed.
func (k keys) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ctx := cc.Context
	if ctx == nil {
		return k.Retrieve()
	}
	return k.value(ctx)
}

// Retrieve reads the keys.
func (k keys) Retrieve() (credentials.Value, error) {
	return k.value(context.Background()) //nolint:forbidigo // the interface has no context
}

func (k keys) value(ctx context.Context) (credentials.Value, error) {
	m, err := k.trust.Material(ctx)
	if err != nil {
		return credentials.Value{}, err
	}
	if m.Username == "" {
		return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
	}
	return credentials.Value{AccessKeyID: m.Username, SecretAccessKey: m.Password.Reveal(), SignerType: credentials.SignatureV4}, nil
}

// IsExpired is true: whoever keeps the keys knows how long.
func (keys) IsExpired() bool { return true }

// object is what a bucket says of an object.
type object struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
	ETag string `json:"etag"`
	// SHA256 is the checksum in the form of S3: base64, of an object in parts over the checksums of the parts, with their number behind it.
	SHA256 string `json:"sha256"`
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return base64.StdEncoding.EncodeToString(digest[:])
}

// options are those of an object of this sink: locked where that is configured.
func (s *Sink) options(contentType string) minio.PutObjectOptions {
	o := minio.PutObjectOptions{ContentType: contentType}
	if s.lock > 0 {
		o.Mode, o.RetainUntilDate = minio.Governance, s.now().Add(s.lock)
	}
	return o
}

// onlyOver makes a write conditional: it counts only while the object has this ETag, or while there is none.
func onlyOver(o *minio.PutObjectOptions, etag string) {
	if etag == "" {
		o.SetMatchETagExcept("*")
		return
	}
	o.SetMatchETag(etag)
}

// put writes a whole object.
func (s *Sink) put(ctx context.Context, key, contentType string, data []byte, over string) (object, error) {
	o := s.options(contentType)
	checksum, hash := sum(data), sha256.Sum256(data)
	o.UserMetadata = map[string]string{checksumHeader: checksum}
	onlyOver(&o, over)
	info, err := s.core.PutObject(ctx, s.bucket, key, bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(hash[:]), o)
	if s.lock > 0 && isDenied(err) { // some storages look at the lock of an object before they look at the condition
		if _, found, failed := s.head(ctx, key); failed == nil && found {
			return object{}, minio.ErrorResponse{
				StatusCode: http.StatusPreconditionFailed, Code: minio.PreconditionFailed, Message: "the object is there, and locked", Key: key,
			}
		}
	}
	if err != nil {
		return object{}, err
	}
	return object{Key: key, Size: int64(len(data)), ETag: info.ETag, SHA256: checksum}, nil
}

// head asks what the bucket has; found is false where there is no such object.
func (s *Sink) head(ctx context.Context, key string) (o object, found bool, err error) {
	info, err := s.core.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{Checksum: true})
	if isMissing(err) {
		return object{}, false, nil
	}
	if err != nil {
		return object{}, false, err
	}
	return object{Key: key, Size: info.Size, ETag: info.ETag, SHA256: info.ChecksumSHA256}, true, nil
}

// get reads a small object; found is false where there is none.
func (s *Sink) get(ctx context.Context, key string) (data []byte, etag string, found bool, err error) {
	body, info, _, err := s.core.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if isMissing(err) {
		return nil, "", false, nil
	}
	if err != nil {
		return nil, "", false, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	data, err = io.ReadAll(io.LimitReader(body, maxClosing))
	return data, info.ETag, err == nil, err
}

func code(err error) (minio.ErrorResponse, bool) { return errors.AsType[minio.ErrorResponse](err) }

func isMissing(err error) bool {
	said, ok := code(err)
	return ok && (said.Code == minio.NoSuchKey || said.Code == "NotFound")
}

// isTaken tells that a conditional write did not count.
func isTaken(err error) bool {
	said, ok := code(err)
	return ok && said.StatusCode == http.StatusPreconditionFailed
}

func isDenied(err error) bool {
	said, ok := code(err)
	return ok && said.Code == minio.AccessDenied
}

func isLostUpload(err error) bool {
	said, ok := code(err)
	return ok && said.Code == minio.NoSuchUpload
}

// failed says what an error means for the data, and has the secrets read again where they were refused. Objects are never refused for
// what is in them: no answer is a fault of a record.
func (s *Sink) failed(ctx context.Context, err error) *sink.Error {
	e := s.classify(err)
	if e.Class == sink.Auth {
		s.trust.Refused(ctx)
		s.http.CloseIdleConnections()
	}
	return e
}

func (s *Sink) classify(err error) *sink.Error {
	said, ok := code(err)
	if !ok {
		e := s.trust.Explain(err)
		return &sink.Error{Class: e.Class, Reason: e.Reason, Message: answer.Words(e.Message), RetryAfter: e.RetryAfter}
	}
	text := fmt.Sprintf("the storage answered %d %s: %s", said.StatusCode, said.Code, answer.Words(said.Message))
	e := &sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: text}
	switch said.Code {
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem":
		e.Class, e.Reason = sink.Auth, sink.PermissionDenied
		return e
	case minio.SignatureDoesNotMatch, minio.InvalidAccessKeyID, "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed":
		e.Class, e.Reason = sink.Auth, sink.TokenRejected
		return e
	case "SlowDown", "TooManyRequests", "ServiceUnavailable", "XMinioStorageFull", "QuotaExceeded":
		e.Class, e.Reason = sink.Overload, sink.Overloaded
		return e
	case "OperationAborted", "ConditionalRequestConflict", minio.NoSuchUpload, "RequestTimeout":
		return e // somebody else writes, or a lifecycle rule was faster: again
	}
	switch status := said.StatusCode; {
	case status == http.StatusUnauthorized:
		e.Class, e.Reason = sink.Auth, sink.TokenRejected
	case status == http.StatusForbidden:
		e.Class, e.Reason = sink.Auth, sink.PermissionDenied
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests, status == http.StatusInsufficientStorage:
		e.Class, e.Reason = sink.Overload, sink.Overloaded
	case status == http.StatusPreconditionFailed, status == http.StatusConflict:
	case status >= 300 && status < 500, status == http.StatusNotImplemented:
		e.Class, e.Reason = sink.Incompatible, sink.NotCompatible
	}
	return e
}

// sweepAfter is how old an upload is that nobody goes on with, and how often such uploads are looked for.
const sweepAfter = 24 * time.Hour

// sweep removes the uploads of one cluster that were begun more than a day ago.
func (s *Sink) sweep(ctx context.Context, below string) error {
	s.mu.Lock()
	due := s.now().Sub(s.swept[below]) >= sweepAfter
	s.mu.Unlock()
	if !due {
		return nil
	}
	for upload := range s.core.ListIncompleteUploads(ctx, s.bucket, below+"/", true) {
		if upload.Err != nil {
			return upload.Err
		}
		if s.now().Sub(upload.Initiated) < sweepAfter {
			continue
		}
		if err := s.core.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID); err != nil && !isLostUpload(err) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept[below] = s.now()
	return nil
}
